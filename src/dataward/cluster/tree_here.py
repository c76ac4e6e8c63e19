"""The deadline tree at one host: a peer for each slot, and the way of their messages.

The tree is awake only while somebody wants a promise: then every host's peers join it, speak once
in each period, and a minute and a half after the last wish they leave it again. Nothing is lost by
that, since what slots have promised is kept without a tree. Whoever wants a promise wakes all hosts
by a message; every message says until when the tree stays awake.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

from dataward.cluster.tree_addresses import address_of, nodes_by_place, place_of
from dataward.cluster.tree_mail import (
    TreeLetter,
    TreeMail,
    decoded_tree_mail,
    encoded_tree_mail,
    letter,
)
from dataward.deadlines.group import PERIOD_SECONDS
from dataward.deadlines.leaving import goodbyes
from dataward.deadlines.peer import Peer
from dataward.deadlines.tree_messages import Address, HoleRequest, Send
from dataward.live.peer_client import PeerClient
from dataward.live.promised_slots import PromisedSlots
from dataward.live.runner_connection import PendingOrder
from dataward.model.ids import NodeId
from dataward.model.members import Member

log = logging.getLogger(__name__)

TREE_PATH = "/tree"
AWAKE_SECONDS = 90.0  # after the last wish; longer than a booking waits to be confirmed
AWAKE_SECONDS_MAX = 600.0  # what others say is believed so far ahead
YOUNG_SECONDS = 4.0  # in which a tree that has just woken speaks more often
READY_SECONDS = 1.0  # after which it mostly knows all holes
YOUNG_PERIOD_SECONDS = 0.2
STRANGERS_SECONDS = 2.0  # after which a peer without a place asks others than the first host
STOPPED_SECONDS = 0.5  # by which a host that speaks late was stopped itself
AT_ONCE_MAX = 500  # messages that follow from one another within a host, until others have a turn
MEETINGS_MAX = 32


class TreeHere:
    """``live`` it in the host's loop; ``follow`` the members whenever they change."""

    def __init__(
        self,
        node: NodeId,
        slots: PromisedSlots,
        running: Callable[[], list[PendingOrder]],
        client: PeerClient,
        on_promises: Callable[[], None],
    ) -> None:
        """``on_promises`` is called whenever slots have been booked or freed."""
        self._node = node
        self._on_promises = on_promises
        self._slots = slots
        self._running = running
        self._client = client
        self._random = Random()
        self.peers: dict[Address, Peer] = {}
        for slot, role in enumerate(slots.roles):
            address = address_of(node, slot)
            self.peers[address] = Peer(address, Random(self._random.random()), role)
        self._nodes: dict[Address, NodeId] = {}  # by the addresses of their first slots
        self._present: dict[NodeId, Member] = {}  # that take work
        self._awake_until = 0.0
        self._woke_at = 0.0
        self._due = 0.0  # when this host was to speak next
        self._is_awake = False
        self._has_left = False
        self._woken = asyncio.Event()
        self._post: dict[NodeId, list[TreeLetter]] = {}
        self._posting: dict[NodeId, asyncio.Task[None]] = {}
        self.moved = asyncio.Event()  # set and cleared whenever messages have come

    @property
    def now(self) -> float:
        return self._slots.clock()

    @property
    def owner(self) -> Peer:
        """The peer that asks for promises in this host's name."""
        return next(iter(self.peers.values()))

    @property
    def speeds(self) -> list[float]:
        """Of every slot of the hosts that take work."""
        found = [m.speed for m in self._present.values() for _ in range(m.cores)]
        return found or [self.owner.role.speed]

    @property
    def nodes(self) -> dict[Address, NodeId]:
        return self._nodes

    def follow(self, members: Sequence[Member]) -> None:
        before = self._present
        self._nodes = nodes_by_place(members)
        self._present = {member.node: member for member in members if not member.draining}
        gone = [member for node, member in before.items() if node not in self._present]
        if self._is_awake and gone:
            lost = {address_of(m.node, slot) for m in gone for slot in range(m.cores)}
            for peer in self.peers.values():
                peer.place.on_lost(lost, self.now)

    # --- awake and asleep ------------------------------------------------------------------------

    def wake(self) -> None:
        """Somebody here wants a promise: have the tree awake everywhere."""
        was_asleep = not self._is_awake
        self._stay_awake(self.now + AWAKE_SECONDS)
        if was_asleep:
            for node in self._present:
                self._put(node, [])

    async def ready(self) -> None:
        """Wait until this host has its place in the tree, and most others have had time to."""
        while self.now < self._woke_at + READY_SECONDS or self.owner.place.link is None:
            await asyncio.sleep(YOUNG_PERIOD_SECONDS)

    def _stay_awake(self, until: float) -> None:
        if self._has_left:
            return
        self._awake_until = max(self._awake_until, min(until, self.now + AWAKE_SECONDS_MAX))
        if not self._is_awake and self.now < self._awake_until:
            self._is_awake, self._woke_at = True, self.now
            self._enter()
            self._woken.set()

    def _enter(self) -> None:
        """Join the tree, by way of the host with the lowest address: its first peer plants it."""
        now, own = self.now, self.owner.address
        first = min((address_of(node, 0) for node in self._present), default=own)
        for peer in self.peers.values():
            peer.place.leave_place(now)
            peer.place.contacts = []
            peer.place.meet(first)
        if first == own:
            members = self._present.values()
            others = {address_of(m.node, slot) for m in members for slot in range(m.cores)}
            self.deliver(self.owner.place.plant_tree({*self.peers, *others}))

    async def live(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self.now < self._awake_until:
                self._tick()
                is_young = self.now < self._woke_at + YOUNG_SECONDS
                pause = YOUNG_PERIOD_SECONDS if is_young else PERIOD_SECONDS
                self._due = self.now + pause
                await asyncio.sleep(pause)
            self._sleep()

    def _tick(self) -> None:
        now = self.now
        if self._due and now > self._due + STOPPED_SECONDS:
            for peer in self.peers.values():
                peer.place.was_stopped(now - self._due, now)
        self._slots.note_running(self._running())
        self._expire()
        if now > self._woke_at + STRANGERS_SECONDS:
            others = sorted(self._present.keys() - {self._node})
            for node in self._random.sample(others, min(len(others), MEETINGS_MAX)):
                for peer in self.peers.values():
                    peer.place.meet(address_of(node, 0))
        for peer in list(self.peers.values()):
            self.deliver(peer.tick(now))
            if any(one.unreleased for one in peer.submissions.values()):
                self._stay_awake(now + AWAKE_SECONDS / 3)  # until all that was booked is free

    def _sleep(self) -> None:
        self._is_awake, self._due = False, 0.0
        self._expire()
        for peer in self.peers.values():
            peer.place.leave_place(self.now)
            peer.submissions.clear()

    def _expire(self) -> None:
        """Free what was booked and is not wanted any more."""
        freed = [role.expire(self.now) for role in self._slots.roles]
        if any(freed):
            self._on_promises()

    @property
    def is_awake(self) -> bool:
        return self._is_awake

    async def leave(self) -> None:
        """Leave on purpose, and do not come back."""
        if self._is_awake:
            places = {address: peer.place for address, peer in self.peers.items()}
            said = goodbyes(places, self.now)
            for peer in self.peers.values():
                peer.place.leave_place(self.now)
            self.deliver(said)
        self._has_left, self._is_awake, self._awake_until = True, False, 0.0
        await asyncio.gather(*self._posting.values(), return_exceptions=True)

    async def close(self) -> None:
        for task in self._posting.values():
            task.cancel()
        await asyncio.gather(*self._posting.values(), return_exceptions=True)

    # --- messages --------------------------------------------------------------------------------

    def take(self, content: bytes) -> None:
        """Heed what another host has sent. Raises ValueError if it is no mail of the tree."""
        mail, letters = decoded_tree_mail(content)
        self._stay_awake(mail.awake_until)
        if self._is_awake:
            self._slots.note_running(self._running())
            self.deliver([Send(to, message) for to, message in letters if to in self.peers])

    def deliver(self, sends: Iterable[Send]) -> None:
        """Give messages to the peers here, and what follows from them; post those to others.

        Peers of this host say them, or other hosts have sent them.
        """
        left, before = deque(sends), self._booked()
        letters: dict[NodeId, list[TreeLetter]] = {}
        for _ in range(AT_ONCE_MAX):
            if not left:
                break
            to, message = left.popleft()
            if to in self.peers:
                if isinstance(message, HoleRequest) and message.group is None:
                    to, message = self._best_slot(to, message)
                left.extend(self.peers[to].receive(message, self.now))
                continue
            node = self._nodes.get(place_of(to))
            if node is not None:
                letters.setdefault(node, []).append(letter(to, message))
        for node, some in letters.items():
            self._put(node, some)
        if left:
            asyncio.get_running_loop().call_soon(self.deliver, left)
        if self._booked() != before:
            self._on_promises()
        self.moved.set()
        self.moved.clear()

    def _best_slot(self, to: Address, ask: HoleRequest) -> tuple[Address, HoleRequest]:
        """The peer here with the smallest hole for a request; if none has one, all were tried."""
        found: list[tuple[float, Address]] = []
        for address, peer in self.peers.items():
            if ask.key in peer.role.booked:  # it was asked before
                return address, ask
            hole = peer.role.hole_for(ask.wanted, self.now)
            if hole is not None:
                found.append((hole.seconds, address))
        if found:
            return min(found)[1], ask
        others = [address for address in self.peers if address not in (to, *ask.tried)]
        return to, replace(ask, tried=(*ask.tried, *others))

    def _booked(self) -> list[int]:
        return [len(role.queue) for role in self._slots.roles]

    def _put(self, node: NodeId, letters: list[TreeLetter]) -> None:
        if node == self._node:
            return
        self._post.setdefault(node, []).extend(letters)
        posting = self._posting.get(node)
        if posting is None or posting.done():
            self._posting[node] = asyncio.create_task(self._send(node), name=f"tree to {node}")

    async def _send(self, node: NodeId) -> None:
        """Send what waits for a host, together. What cannot be sent is lost: it is said again."""
        while node in self._post:
            letters = tuple(self._post.pop(node))
            mail = encoded_tree_mail(TreeMail(self._node, self._awake_until, letters))
            await self._client.leave(node, TREE_PATH, mail)
