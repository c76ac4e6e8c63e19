"""Peers under a virtual clock, with messages that are lost, late and repeated.

Peers of one host, neighbours by address, serve tasks of several cores together, and go together.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

import numpy as np

from dataward.deadlines.frames import Allocation, outline_of
from dataward.deadlines.group import LEAST, MOST, PERIOD_SECONDS, HostedGroup
from dataward.deadlines.leaving import goodbyes
from dataward.deadlines.local_schedule import QueueSlot
from dataward.deadlines.peer import Peer
from dataward.deadlines.reservations import ExecutionRole, LentTo, as_mates
from dataward.deadlines.submission import AskKey, SubmissionState, WorkflowSubmission
from dataward.deadlines.summary import summed
from dataward.deadlines.tree_messages import Send
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow

HOST_SLOTS = (1, 1, 2, 3)
QUIET_SECONDS = 400.0  # until everything has settled, whatever went wrong before


@dataclass
class Weather:
    """How messages fare. Peers of different sides of a partition do not hear each other."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    sides: dict[int, int] = field(default_factory=dict)

    def passes(self, source: int, target: int) -> bool:
        return self.sides.get(source, 0) == self.sides.get(target, 0)


class TreeWorld:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.peers: dict[int, Peer] = {}
        self.hosts: dict[int, tuple[int, ...]] = {}  # for each peer, the peers of its host
        self.weather = Weather()
        self.workflows = 0
        self._used: set[int] = set()
        self._events: list[Any] = []
        self._count = 0

    def add_peer(self, address: int | None = None) -> Peer:
        """A peer that joins by way of another one; the first begins the tree."""
        if address is None:  # nobody has the address of one who is gone, and has promised
            address = self.random.choice([a for a in range(1000) if a not in self._used])
        return self._added(address)

    def add_host(self, slots: int) -> list[Peer]:
        """A host with so many peers, which serve tasks of several cores together."""
        wanted = range(slots)
        starts = [a for a in range(1000) if not any(a + n in self._used for n in wanted)]
        first = self.random.choice(starts)
        peers = [self._added(first + n) for n in wanted]
        as_mates(peer.role for peer in peers)
        for peer in peers[1:]:
            peer.role.speed = peers[0].role.speed
        self.hosts.update({peer.address: tuple(p.address for p in peers) for peer in peers})
        return peers

    def _added(self, address: int) -> Peer:
        self._used.add(address)
        self.hosts[address] = (address,)
        contacts = sorted(self.peers)
        role = ExecutionRole(speed=self.random.choice((0.5, 1.0, 2.0)), free_from=self.now)
        peer = Peer(address, Random(self.random.random()), role, orphan_since=self.now)
        if contacts:
            peer.place.contacts = [self.random.choice(contacts)]
        else:
            peer.place.found_tree(self.now)
        self.peers[address] = peer
        self._put(self.now + self.random.random() * PERIOD_SECONDS, "tick", address)
        return peer

    def crash(self, address: int) -> None:
        """The host of a peer is gone."""
        for peer in self.hosts[address]:
            del self.peers[peer]

    def leave(self, address: int) -> None:
        """The host of a peer leaves on purpose."""
        leaving = {peer: self.peers[peer].place for peer in self.hosts[address]}
        if len(leaving) == 1:
            self._send(address, self.peers[address].place.leave(self.now))
        else:
            self._send(address, goodbyes(leaving, self.now))
        for peer in leaving:
            del self.peers[peer]

    def submit(self, owner: int, workflow: Workflow, deadline: float) -> int:
        self.workflows += 1
        allocation = Allocation(outline_of(workflow), self.now, deadline, lag_seconds=1.0)
        self._send(owner, self.peers[owner].submit(self.workflows, allocation, self.now))
        return self.workflows

    def send(self, source: int, sends: list[Send]) -> None:
        """Have a peer's messages on their way."""
        self._send(source, sends)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, kind, target, message = heappop(self._events)
            peer = self.peers.get(target)
            if peer is None:
                continue
            if kind == "tick":
                self._send(target, peer.tick(self.now))
                self._put(self.now + PERIOD_SECONDS, "tick", target)
            else:
                self._send(target, peer.receive(message, self.now))
                for address in self.hosts[target]:
                    self.peers[address].role.check_invariants(self.now)
        self.now = until

    def _send(self, source: int, sends: list[Send]) -> None:
        random, weather = self.random, self.weather
        for target, message in sends:
            for _ in range(2 if random.random() < weather.repeated else 1):
                is_lost = random.random() < weather.lost and source != target
                if is_lost or not weather.passes(source, target):
                    continue
                delay = 4.0 * random.random() if random.random() < weather.late else 0.05
                self._put(self.now + delay * (0.5 + random.random()), "message", target, message)

    def _put(self, at: float, kind: str, target: int, message: Any = None) -> None:
        self._count += 1
        heappush(self._events, (at, self._count, kind, target, message))

    # --- what must be true when nothing has gone wrong for a while ---

    def settle(self) -> None:
        """Nothing goes wrong for a while, and who knows only dead peers is told of a living one."""
        self.weather = Weather()
        for address, peer in self.peers.items():
            others = sorted(self.peers.keys() - {address})
            if others:
                peer.place.meet(self.random.choice(others))
        self.run(QUIET_SECONDS)

    def root(self) -> HostedGroup:
        roots = [g for peer in self.peers.values() for g in peer.place.groups.values() if g.is_root]
        assert len(roots) == 1, f"{len(roots)} roots"
        return roots[0]

    def check_tree(self) -> None:
        """Balanced, ordered by address, with every living peer in it once, and no group beside."""
        seen: list[tuple[int, int]] = []  # (depth, hosted groups)
        leaves: list[int] = []
        depths: set[int] = set()

        def walk(group: HostedGroup, depth: int) -> None:
            seen.append(group.id)
            least = LEAST if not group.is_root or len(self.peers) > 1 else 1
            assert least <= len(group.records) <= MOST, f"{len(group.records)} children"
            for record in group.records:
                if group.level == 1:
                    leaves.append(record.child.host)
                    depths.add(depth)
                    link = self.peers[record.child.host].place.link
                    assert link is not None
                    assert link.view.group == group.id
                else:
                    below = self.peers[record.child.host].place.groups[record.child.key]
                    assert below.level == group.level - 1
                    walk(below, depth + 1)

        walk(self.root(), 1)
        assert leaves == sorted(self.peers), f"{leaves} for {sorted(self.peers)}"
        assert len(depths) == 1
        hosted = [g for peer in self.peers.values() for g in peer.place.groups]
        assert sorted(hosted) == sorted(seen), "a group beside the tree"
        assert max(depths) <= max(1, np.ceil(np.log2(max(len(leaves), 2))))

    def check_summaries(self) -> None:
        """After a period for each level, every group knows exactly what its leaves have."""
        for _ in range(self.root().level + 1):
            self._period_at_once()

        def check(group: HostedGroup) -> list[int]:
            below: list[int] = []
            for record in group.records:
                host = self.peers[record.child.host]
                below += (
                    [host.address]
                    if group.level == 1
                    else check(host.place.groups[record.child.key])
                )
            true = summed(self.peers[a].summary(self.now) for a in below)
            assert (group.summary() == true).all()
            assert group.leaves == len(below)
            return below

        check(self.root())

    def _period_at_once(self) -> None:
        """Every peer speaks once, lowest level first heard, while the clock stands still."""
        for address in sorted(self.peers):
            for target, message in self.peers[address].tick(self.now):
                if target in self.peers:
                    self.peers[target].receive(message, self.now)

    def check_reservations(self) -> None:
        """Every booking is wanted by its owner; no booking of a living node is missing."""
        for peer in self.peers.values():
            peer.role.expire(self.now)
        for address, peer in self.peers.items():
            peer.role.check_invariants(self.now)
            for key, booking in peer.role.booked.items():
                owners = [p for p in self.peers.values() if key.workflow in p.submissions]
                if not owners:
                    continue  # the owner is gone; the booking ends with its time
                submission = owners[0].submissions[key.workflow]
                assert booking.is_confirmed, "an unconfirmed booking has not expired"
                assert submission.state is SubmissionState.ACCEPTED, "a booking nobody wants"
                assert submission.bookings[key] == (address, booking.number, booking.beside), (
                    "two nodes are booked for one request"
                )
        for peer in self.peers.values():
            for submission in peer.accepted:
                for key, (node, _, _) in submission.bookings.items():
                    tasks = submission.allocation.outline.sequences[key.sequence]
                    end = submission.allocation.latest_ends[tasks[key.high - 1]]
                    if node in self.peers and end >= self.now:
                        assert key in self.peers[node].role.booked, "a promise was forgotten"
                        self._check_wide(submission, key, self.peers[node].role)

    def _check_wide(self, submission: WorkflowSubmission, key: AskKey, role: ExecutionRole) -> None:
        """Each task of a booking has its time in as many slots of the host as it has cores."""
        outline, booking = submission.allocation.outline, role.booked[key]
        for place, task in enumerate(outline.sequences[key.sequence][key.low : key.high]):
            start, end = booking.promises[place]
            lent = LentTo(role.slot, key)
            wanted = {(role.slot, QueueSlot(end, end - start, (key, place)))}
            for number in booking.beside[: outline.width_of(task) - 1]:
                wanted.add((number, QueueSlot(end, end - start, (lent, place))))
            roles = {role.slot: role, **role.mates}
            found = [
                (number, slot)
                for number, one in roles.items()
                for slot in one.queue
                if slot.task in ((key, place), (lent, place))
            ]
            assert len(found) == len(wanted) == outline.width_of(task), "not one slot for each core"
            assert {(number, slot.task) for number, slot in found} == {
                (number, slot.task) for number, slot in wanted
            }
            assert len({slot.deadline for _, slot in found}) == 1, "slots at different times"


def a_small_workflow(random: Random, widest: int = 1) -> Workflow:
    """A chain, a fork-join or a bag, of tasks of a few minutes, of so many cores at most."""
    builder = WorkflowBuilder()
    kind, count = random.choice(("chain", "fork", "bag")), random.randint(1, 5)
    for place in range(count):
        after = [f"t{place - 1}"] if kind == "chain" and place else []
        if kind == "fork" and place:
            after = ["t0"] if place < count - 1 or count < 3 else [f"t{p}" for p in range(1, place)]
        seconds = random.uniform(60, 400)
        cores = random.randint(1, widest)
        builder.task(f"t{place}", runtime_seconds=seconds, after=after, cores=cores)
    return builder.build()


def weather_of(random: Random) -> Weather:
    return Weather(
        lost=random.choice((0.0, 0.05, 0.2)),
        repeated=random.choice((0.0, 0.1)),
        late=random.choice((0.0, 0.1)),
    )


def chaos(seed: int, rounds: int = 2) -> TreeWorld:
    """Peers that join, leave, crash and lose each other while workflows are asked for.

    After each round nothing goes wrong for a while, and then everything must be in order.
    """
    world = TreeWorld(seed)
    random = world.random
    for _ in range(random.randint(2, 24)):
        world.add_host(random.choice(HOST_SLOTS))
        world.run(3 * random.random())
    world.run(30.0)
    for _ in range(rounds):
        world.weather = weather_of(random)
        for _ in range(random.randint(1, 8)):
            _something_happens(world)
            world.run(random.choice((0.1, 1.0, 5.0, 20.0)))
        world.settle()
        world.check_tree()
        world.check_summaries()
        world.check_reservations()
    return world


def _something_happens(world: TreeWorld) -> None:
    random, living = world.random, sorted(world.peers)
    what = random.choice(("join", "leave", "crash", "crashes", "partition", "submit", "submit"))
    hosts = sorted({world.hosts[address] for address in living})
    if what == "join":
        world.add_host(random.choice(HOST_SLOTS))
    elif what == "leave" and len(hosts) > 1:
        world.leave(random.choice(hosts)[0])
    elif what == "crash" and len(hosts) > 1:
        world.crash(random.choice(hosts)[0])
    elif what == "crashes":
        for host in random.sample(hosts, len(hosts) // 3):
            world.crash(host[0])
    elif what == "partition":
        sides = {host: random.randint(0, 1) for host in hosts}
        world.weather.sides = {address: sides[world.hosts[address]] for address in living}
        world.run(random.choice((2.0, 10.0, 60.0)))
        world.weather.sides = {}
    elif what == "submit":
        workflow = a_small_workflow(random, random.choice((1, 1, 2, 3)))
        loose = random.choice((1.0, 2.0, 5.0))
        deadline = world.now + loose * float(workflow.runtime_seconds.sum())
        world.submit(random.choice(living), workflow, deadline)
