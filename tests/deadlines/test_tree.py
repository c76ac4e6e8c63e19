"""The tree of peers: balanced, complete and truthful again after whatever has happened."""

from dataclasses import replace
from random import Random

import pytest

from dataward.deadlines.frames import Allocation, outline_of
from dataward.deadlines.group import SILENCE_SECONDS, ParentLink, accepts
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.peer import Peer
from dataward.deadlines.reservations import ExecutionRole, WantedBytes, WantedSlots
from dataward.deadlines.submission import AskKey, SubmissionState
from dataward.deadlines.tree_messages import (
    HIGHEST,
    LOWEST,
    Appoint,
    BranchChild,
    Crown,
    Crowned,
    GroupView,
    HoleRequest,
    ParentRef,
    Send,
    Stamp,
)
from deadlines.tree_world import TreeWorld, Weather, chaos
from plan.dags import a_workflow


def a_tree(peers: int, seed: int = 0) -> TreeWorld:
    world = TreeWorld(seed)
    for _ in range(peers):
        world.add_peer()
        world.run(2 * world.random.random())
    world.run(60.0)
    return world


@pytest.mark.parametrize("peers", [1, 2, 5, 8, 20, 60])
def test_a_tree_that_grows_is_balanced_and_knows_all_holes(peers: int) -> None:
    world = a_tree(peers)

    world.check_tree()
    world.check_summaries()


@pytest.mark.parametrize("peers", [1, 2, 3, 4, 5, 7, 8, 20, 60, 200])
def test_a_tree_that_is_planted_is_whole_at_once(peers: int) -> None:
    world = TreeWorld(peers)
    for address in range(peers):
        world.add_peer(3 * address)
        world.peers[3 * address].place.leave_place(world.now)
        world.peers[3 * address].place.contacts.clear()

    world.send(0, world.peers[0].place.plant_tree(list(world.peers)))
    world.run(3.0)
    world.check_tree()
    world.check_summaries()
    world.run(60.0)

    world.check_tree()
    world.check_summaries()


def test_a_planted_tree_lives_on_without_those_who_were_not_there() -> None:
    world = TreeWorld(1)
    for address in range(30):
        world.add_peer(address)
        world.peers[address].place.leave_place(world.now)
        world.peers[address].place.contacts.clear()
    addresses = list(world.peers)
    for address in (3, 4, 5, 17, 29):
        world.crash(address)

    world.send(0, world.peers[0].place.plant_tree(addresses))
    world.settle()

    world.check_tree()
    world.check_summaries()


def test_every_peer_hosts_at_most_two_groups_in_a_tree_at_rest() -> None:
    world = a_tree(40)

    assert max(len(peer.place.groups) for peer in world.peers.values()) <= 2


def test_peers_that_come_in_the_order_of_their_addresses_make_a_balanced_tree() -> None:
    world = TreeWorld(1)
    for address in range(30):
        world.add_peer(address)
        world.run(1.0)
    world.run(60.0)

    world.check_tree()


def test_the_tree_survives_the_host_of_its_root() -> None:
    world = a_tree(12)

    world.crash(world.root().host)
    world.settle()

    world.check_tree()
    world.check_summaries()


def test_two_halves_that_lost_each_other_become_one_tree_again() -> None:
    world = a_tree(12)
    world.weather = Weather(sides={address: address % 2 for address in world.peers})
    world.run(120.0)
    with pytest.raises(AssertionError):
        world.check_tree()

    world.settle()

    world.check_tree()


def test_a_tree_is_found_that_only_a_leaf_has_heard_of() -> None:
    world = a_tree(6)
    world.weather = Weather(sides={999: 1})
    alone = world.add_peer(999)
    alone.place.contacts = [998]  # who is gone
    world.run(120.0)
    assert any(group.is_root for group in alone.place.groups.values())
    leaf = next(p for p in world.peers.values() if not p.place.groups and p is not alone)

    world.weather = Weather()
    for peer in world.peers.values():
        if 999 in peer.place.contacts:
            peer.place.contacts.remove(999)
    leaf.place.meet(999)
    world.run(300.0)

    world.check_tree()


def test_a_request_climbs_to_where_a_hole_is() -> None:
    world = a_tree(16)
    owner = min(world.peers)
    for address, peer in world.peers.items():
        if address != max(world.peers):
            peer.role.free_from = 1e6
    world.run(20.0)

    number = world.submit(owner, a_workflow(("a", 600, "")), world.now + 7200.0)
    world.run(10.0)

    submission = world.peers[owner].submissions[number]
    assert submission.state is SubmissionState.ACCEPTED
    assert [booking.node for booking in submission.bookings.values()] == [max(world.peers)]


def test_a_request_that_nobody_can_serve_comes_back_from_the_root() -> None:
    world = a_tree(40)
    owner = min(world.peers)

    number = world.submit(owner, a_workflow(("a", 7200, "")), world.now + 600.0)
    world.run(3.0)
    assert world.peers[owner].submissions[number].state is SubmissionState.ASKING
    world.run(20.0)  # it is asked for three times

    assert world.peers[owner].submissions[number].state is SubmissionState.REFUSED


def test_a_request_that_was_tried_at_every_leaf_is_not_made_again() -> None:
    world = a_tree(8)
    owner = min(world.peers)

    number = world.submit(owner, a_workflow(("a", 7200, "")), world.now + 600.0)
    world.run(3.0)

    assert world.peers[owner].submissions[number].state is SubmissionState.REFUSED


def test_holes_that_are_too_small_to_be_told_of_are_found_by_trying() -> None:
    world = a_tree(8)
    owner = min(world.peers)
    for peer in world.peers.values():
        # One node has twenty seconds left today, which no summary tells; the others have none.
        peer.role = ExecutionRole(free_from=world.now + (80.0 if peer.address == owner else 1e6))
    world.run(10.0)
    last = max(world.peers)

    number = world.submit(last, a_workflow(("a", 15, "")), world.now + 90.0)
    world.run(3.0)

    submission = world.peers[last].submissions[number]
    assert submission.state is SubmissionState.ACCEPTED
    assert [booking.node for booking in submission.bookings.values()] == [owner]


def test_a_sequence_is_served_in_two_pieces_where_no_hole_holds_it() -> None:
    world = a_tree(8)
    owner = min(world.peers)
    hour = 3600.0
    for place, peer in enumerate(world.peers.values()):
        # Half of the nodes have two hours now, the other half have two hours later.
        free, until = (5.0, 7.1) if place % 2 else (0.0, 2.0)
        peer.role = ExecutionRole(free_from=world.now + free * hour)
        frame = Frame(world.now + until * hour, world.now + (until + 31) * hour)
        booking = peer.role.reserve("long", WantedSlots([31 * hour - 1], frame, [False]), world.now)
        assert booking is not None
        assert peer.role.confirm("long", booking.number, world.now)
    world.run(10.0)
    chain = a_workflow(("x", 1.1 * hour, ""), ("y", 0.4 * hour, "x"), ("z", 0.7 * hour, "y"))

    number = world.submit(owner, chain, world.now + 9 * hour)
    world.run(20.0)

    submission = world.peers[owner].submissions[number]
    assert submission.state is SubmissionState.ACCEPTED
    assert sorted((key.low, key.high) for key in submission.bookings) == [(0, 1), (1, 3)]


def test_a_request_goes_first_where_the_data_is_and_then_elsewhere() -> None:
    world = a_tree(12)
    owner, place = min(world.peers), max(world.peers)
    for address, peer in world.peers.items():
        peer.role = ExecutionRole(place=address, bytes_per_second=1.0)
    world.run(5.0)
    data = {0: WantedBytes(100.0, [(place, 100.0)])}
    nodes = []
    for number in (1, 2):
        outline = outline_of(a_workflow(("a", 600, "")))
        allocation = Allocation(outline, world.now, world.now + 900.0)
        world.send(owner, world.peers[owner].submit(number, allocation, world.now, data=data))
        world.run(10.0)
        submission = world.peers[owner].submissions[number]
        assert submission.state is SubmissionState.ACCEPTED
        ((node, promise, _),) = submission.placed().values()
        nodes.append((node == place, promise.latest_end - promise.latest_start))

    assert nodes == [(True, 600.0), (False, 700.0)]


def test_a_request_that_comes_twice_is_passed_on_once() -> None:
    world = a_tree(8)
    group = world.root()
    host = world.peers[group.host]
    wanted = WantedSlots([600.0], Frame(world.now, world.now + 5000.0), [False])
    ask = HoleRequest(AskKey(1, 0, 1, 0, 1), 5, wanted, None, group.id, True, 3, hops=4)

    assert host.receive(ask, world.now) != []
    assert host.receive(ask, world.now) == []
    assert host.receive(replace(ask, hops=8), world.now) != []  # it has come down in vain


def test_a_peer_that_is_known_to_be_gone_is_replaced_before_it_is_silent_for_long() -> None:
    world = a_tree(12)
    gone = world.root().host

    world.crash(gone)
    for peer in world.peers.values():
        peer.place.on_lost({gone}, world.now)
    world.run(SILENCE_SECONDS - 1.0)

    assert world.root().host in world.peers


# 20121: a request that was refused by many leaves came a hundred times to some group; one in ten
# messages was repeated there, and repetitions of repetitions never came to an end.
# 20788: a leaf that had just come was below its group's range, which follows from its lowest leaf a
# period later; so it was sent away in every period, and came again.
@pytest.mark.parametrize("seed", [*range(40), 20121, 20788])
def test_all_is_in_order_again_after_chaos(seed: int) -> None:
    chaos(seed)


def test_workflows_are_promised_in_the_midst_of_it() -> None:
    accepted = [
        s for seed in range(100, 106) for p in chaos(seed).peers.values() for s in p.accepted
    ]

    assert len(accepted) >= 4
    assert any(max(s.allocation.outline.cores, default=1) > 1 for s in accepted)


def test_a_group_that_was_just_appointed_is_crowned_before_it_has_seen_a_view() -> None:
    """A root without views for its only child, and a child that waited for one, lasted for ever."""
    peer = Peer(5, Random(0))
    leaves = [BranchChild(address, address, address) for address in (5, 6)]
    peer.receive(Appoint((9, 1), 1, 0, 3, leaves, ParentRef((9, 2), 7)), 0.0)

    answers = peer.receive(Crown((9, 1), (9, 2)), 1.0)

    assert peer.place.groups[9, 1].is_root
    assert answers == [Send(7, Crowned((9, 2)))]


# --- whom to follow ------------------------------------------------------------------------------


def a_view(group: int = 1, version: int = 5, host: int = 7, turn: int = 3) -> GroupView:
    return GroupView(
        (group, 1), 1, Stamp(version, host), turn, [], 9, LOWEST, HIGHEST, None, (group, 1), host
    )


def test_a_child_follows_the_newest_word_of_its_group_and_a_later_group() -> None:
    link = ParentLink(a_view(), heard=0.0)

    assert accepts(None, a_view(), 0.0)
    assert not accepts(link, a_view(), 1.0)
    assert accepts(link, a_view(turn=4), 1.0)
    assert not accepts(link, a_view(version=4, turn=9), 1.0)
    assert accepts(link, a_view(host=8, turn=0), 1.0)
    assert not accepts(link, a_view(group=2, version=5, host=8), 1.0)
    assert accepts(link, a_view(group=2, version=6), 1.0)
    assert accepts(link, a_view(group=2, version=1), 100.0)  # the host has been silent for long
