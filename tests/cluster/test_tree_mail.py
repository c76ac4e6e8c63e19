"""Messages of the deadline tree, written and read; what is none is refused."""

from random import Random

import msgspec
import pytest

from dataward.cluster.tree_mail import (
    TreeLetter,
    TreeMail,
    decoded_tree_mail,
    encoded_tree_mail,
    letter,
)
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reservations import Promise, WantedBytes, WantedSlots
from dataward.deadlines.submission import AskKey, BookingRef
from dataward.deadlines.tree_messages import HoleRequest, NoHole, Reserved, Send
from dataward.model.ids import NodeId
from deadlines.tree_world import TreeWorld, a_small_workflow

KEY = AskKey(7, 0, 1, 0, 2)
WANTED = WantedSlots([3.0, 4.0], Frame(10.0, 30.0), [True, False])


class WrittenWorld(TreeWorld):
    """A tree whose messages go through the mail of hosts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kinds: set[str] = set()

    def _send(self, source: int, sends: list[Send]) -> None:
        letters = tuple(letter(to, message) for to, message in sends)
        self.kinds.update(one.kind for one in letters)
        content = encoded_tree_mail(TreeMail(NodeId("a"), 0.0, letters))
        _, read = decoded_tree_mail(content)
        super()._send(source, [Send(to, message) for to, message in read])


def test_a_tree_whose_messages_are_written_and_read_is_whole_and_keeps_its_promises() -> None:
    world = WrittenWorld(3)
    for _ in range(12):
        world.add_peer()
        world.run(1.0)
    world.run(40.0)
    workflow = a_small_workflow(Random(5))

    number = world.submit(0 if 0 in world.peers else min(world.peers), workflow, world.now + 5000)
    world.leave(max(world.peers))
    world.settle()

    world.check_tree()
    world.check_summaries()
    world.check_reservations()
    accepted = [one.number for peer in world.peers.values() for one in peer.accepted]
    assert accepted == [number]
    assert {"GroupView", "BranchReport", "HoleRequest", "Reserved", "Appoint"} <= world.kinds


def test_requests_tell_where_their_data_is() -> None:
    wanted = WANTED._replace(staging=[WantedBytes(5.0, [(3, 4.0)]), WantedBytes(0.0)])
    ask = HoleRequest(KEY, 1, wanted, None, (3, 4), True, 3)

    content = encoded_tree_mail(TreeMail(NodeId("a"), 1.0, (letter(2, ask),)))
    ((_, read),) = decoded_tree_mail(content)[1]

    assert isinstance(read, HoleRequest)
    assert (read.key, read.group, read.wanted.frame) == (KEY, (3, 4), Frame(10.0, 30.0))
    assert read.wanted.staging[0].missing(3) == 1.0


def test_bookings_of_several_slots_are_read_as_they_were_written() -> None:
    reserved = Reserved(KEY, BookingRef(1, 1, (2, 3)), [Promise(1.0, 2.0), Promise(2.0, 3.0)])

    content = encoded_tree_mail(TreeMail(NodeId("a"), 1.0, (letter(2, reserved),)))

    assert decoded_tree_mail(content)[1] == [(2, reserved)]


BAD = {
    "nothing": b"",
    "no mail": msgspec.msgpack.encode("hello"),
    "no time": msgspec.msgpack.encode(["a", float("inf"), []]),
    "no kind": encoded_tree_mail(
        TreeMail(NodeId("a"), 1.0, (TreeLetter(1, "Peer", msgspec.Raw(b"\x80")),))
    ),
    "no key": encoded_tree_mail(
        TreeMail(NodeId("a"), 1.0, (TreeLetter(1, "NoHole", msgspec.Raw(b"\x80")),))
    ),
    "no class": encoded_tree_mail(
        TreeMail(
            NodeId("a"),
            1.0,
            (
                TreeLetter(
                    1,
                    "BranchReport",
                    msgspec.Raw(
                        msgspec.msgpack.encode(
                            {
                                "group": [1, 1], "child": [1, 1, 1], "stamp": [1, 1], "turn": 1,
                                "members": [], "leaves": 1, "summary": [[715, 1]], "spare": [],
                            }
                        )
                    ),
                ),
            ),
        )
    ),
    "no tasks": encoded_tree_mail(
        TreeMail(
            NodeId("a"),
            1.0,
            (letter(2, HoleRequest(KEY, 1, WANTED._replace(work=[]), None, None, True, 3)),),
        )
    ),
    "no numbers": encoded_tree_mail(
        TreeMail(
            NodeId("a"),
            1.0,
            (
                letter(
                    2,
                    HoleRequest(
                        KEY, 1, WANTED._replace(work=[float("nan"), 1.0]), None, None, True, 3
                    ),
                ),
            ),
        )
    ),
    "cores of other tasks": encoded_tree_mail(
        TreeMail(
            NodeId("a"),
            1.0,
            (letter(2, HoleRequest(KEY, 1, WANTED._replace(cores=[2]), None, None, True, 3)),),
        )
    ),
    "no cores": encoded_tree_mail(
        TreeMail(
            NodeId("a"),
            1.0,
            (letter(2, HoleRequest(KEY, 1, WANTED._replace(cores=[0, 1]), None, None, True, 3)),),
        )
    ),
    "too few promises": encoded_tree_mail(
        TreeMail(
            NodeId("a"), 1.0, (letter(2, Reserved(KEY, BookingRef(1, 1), [Promise(1.0, 2.0)])),)
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_is_no_message_of_the_tree_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decoded_tree_mail(content)


def test_a_good_message_is_read_as_it_was_written() -> None:
    content = encoded_tree_mail(TreeMail(NodeId("a"), 1.0, (letter(2, NoHole(KEY)),)))

    mail, read = decoded_tree_mail(content)

    assert (mail.sender, mail.awake_until) == ("a", 1.0)
    assert read == [(2, NoHole(KEY))]
