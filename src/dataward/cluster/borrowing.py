"""An executor's side of a cluster: borrows slots of its hosts, over a websocket to each of them.

A host that is gone takes its calls with it: those without a result are made elsewhere, and large
values that no other host has are made again when somebody asks for them. Everything here runs in
the executor's own thread, but for `fetch`, `revive` and `on_dropped`.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, get_ident
from time import monotonic
from weakref import WeakValueDictionary

import aiohttp
import msgspec

from dataward.calls.directory import CallDirectory
from dataward.calls.lender import Borrower
from dataward.calls.lent_slot import LentSlot
from dataward.cluster.access import Access
from dataward.cluster.call_wire import (
    CALLS_PATH,
    HEARTBEAT_SECONDS,
    MESSAGE_BYTES_MAX,
    BorrowSlot,
    BringValues,
    CallsBack,
    CallsMade,
    DropValues,
    HostLeaves,
    LoanOver,
    Need,
    NeedsMissing,
    Outgoing,
    SlotReady,
    ToCaller,
    ValueName,
    ValuesBrought,
    decode_to_caller,
)
from dataward.cluster.lending import PYTHON
from dataward.cluster.remote_slot import RemoteSlot
from dataward.cluster.remote_value import RemoteValue, read_value
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.credentials import Role
from dataward.live.peer_client import BROKEN
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.workflow import TaskId

MEET_SECONDS = 2.0  # how often new hosts are looked for, while calls wait
RETRY_SECONDS = 0.25
GIVE_UP_SECONDS = 30.0  # an executor that finds no host for so long breaks down
FINISH_SECONDS = 10.0  # for which the ends of loans are waited for


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster lends slots, how many at most (0: all there are), and what calls may use."""

    access: Access
    contacts: Sequence[str]
    slots_max: int = 0
    time_limit_seconds: float = 0.0


class HostLine:
    """The connection to one host."""

    def __init__(self, member: Member, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.member = member
        self.socket = socket
        self.outgoing = Outgoing(socket.send_bytes)
        self.is_leaving = False


class ClusterLender:
    def __init__(
        self,
        settings: ClusterSettings,
        kernel: AsyncioKernel,
        owner: Borrower,
        directory: CallDirectory,
    ) -> None:
        self.slots: dict[TaskId, LentSlot] = {}
        self._settings = settings
        self._kernel = kernel
        self._owner = owner
        self._directory: CallDirectory | None = directory
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._visitor = Visitor(settings.access, settings.contacts)
        self._session: aiohttp.ClientSession | None = None
        self._lines: dict[NodeId, HostLine] = {}
        self._addresses: dict[NodeId, str] = {}
        self._context = settings.access.credentials.client_context()
        self._values: WeakValueDictionary[ValueName, RemoteValue] = WeakValueDictionary()
        self._dropped: deque[tuple[ValueName, list[NodeId]]] = deque()
        self._moving: set[ValueName] = set()  # from hosts that leave
        self._lent = 0
        self._to_meet = kernel.flag()  # set while more calls wait than can be made
        self._is_over = False

    @property
    def capacity(self) -> int:
        cores = sum(line.member.cores for line in self._lines.values())
        return min(cores, self._settings.slots_max or cores)

    # --- its life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises ClusterError if no host lends slots."""
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector)
        await self._visitor.__aenter__()
        problems = await self._meet()
        if not self._lines:
            raise ClusterError(f"no node lends slots ({'; '.join(problems[:3])})")
        self._kernel.spawn(self._keep_meeting(), "meet")

    async def finish(self) -> None:
        """Bring the values that futures refer to here, and give the slots back."""
        values = [value for value in self._referred() if value.loss is None]
        for number, value in enumerate(values):
            assert self._directory is not None
            path = Path(self._directory.path_of(f"value{number}"))
            await asyncio.to_thread(value.save, path, self._directory)
        del values
        self._is_over = True
        for slot in self.slots.values():
            slot.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while self.slots:
                    self._owner.work.clear()
                    await self._owner.work.wait()

    async def stop(self) -> None:
        self._is_over = True
        for value in self._referred():
            value.end()
        for line in list(self._lines.values()):
            await line.socket.close()
        if self._session is not None:
            await self._session.close()
            await self._visitor.__aexit__(None, None, None)

    def close(self) -> None:
        self._directory = None

    # --- hosts -----------------------------------------------------------------------------------

    async def _meet(self) -> list[str]:
        """Connect to the hosts that there are now. Returns why some were not reached."""
        facts = await self._visitor.cluster()
        new = [m for m in facts.members if m.node not in self._lines and not m.draining]
        problems = await asyncio.gather(*(self._connect(member) for member in new))
        return [problem for problem in problems if problem]

    async def _connect(self, member: Member) -> str:
        """Returns an error sentence, or '' on success."""
        assert self._session is not None
        try:
            socket = await self._session.ws_connect(
                f"https://{member.address}{CALLS_PATH}?python={PYTHON}",
                server_hostname=Role.NODE.value,
                heartbeat=HEARTBEAT_SECONDS,
                max_msg_size=MESSAGE_BYTES_MAX,
            )
        except aiohttp.WSServerHandshakeError as error:
            return await self._why_refused(member, error)
        except (*BROKEN, TimeoutError) as error:
            return f"{member.node}: {str(error) or type(error).__name__}"
        line = self._lines[member.node] = HostLine(member, socket)
        self._addresses[member.node] = member.address
        self._kernel.spawn(self._send_to(line), f"to {member.node}")
        self._kernel.spawn(self._listen_to(line), f"from {member.node}")
        self._owner.work.set()
        return ""

    async def _why_refused(self, member: Member, error: aiohttp.WSServerHandshakeError) -> str:
        """What a host says that refuses; the handshake's error has only the number."""
        assert self._session is not None
        with suppress(*BROKEN, TimeoutError):
            async with self._session.get(
                f"https://{member.address}{CALLS_PATH}?python={PYTHON}",
                server_hostname=Role.NODE.value,
            ) as response:
                return f"{member.node}: {(await response.text())[:200]}"
        return f"{member.node}: {error.status} {error.message}"

    async def _send_to(self, line: HostLine) -> None:
        with suppress(ConnectionError, aiohttp.ClientError):
            await line.outgoing.run()
        await line.socket.close()

    async def _listen_to(self, line: HostLine) -> None:
        problem = "its node is gone"
        try:
            async for message in line.socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    for each in decode_to_caller(message.data):
                        self._on_message(line, each)
                    self._owner.work.set()
        except (msgspec.MsgspecError, ValueError) as error:
            problem = f"its node said what this version cannot read ({error})"
        if not self._is_over:
            self._on_gone(line, f"{problem} ({line.member.node})")
        else:
            self._forget_slots(line)
        await line.socket.close()

    def _forget_slots(self, line: HostLine) -> list[LentSlot]:
        node = line.member.node
        self._lines.pop(node, None)
        gone = [slot for slot in self.slots.values() if slot.node == node]
        for slot in gone:
            del self.slots[slot.id]
        self._owner.work.set()
        return gone

    def _on_gone(self, line: HostLine, why: str) -> None:
        for slot in self._forget_slots(line):
            self._owner.take_results(slot)
            self._owner.try_again(slot.calls(), why)
        for value in self._referred():
            value.on_gone(line.member.node, why)
        self._to_meet.set()

    async def _keep_meeting(self) -> None:
        """Look for hosts when there are too few. Breaks the executor down if there are none."""
        none_since: float | None = None
        while True:
            await self._to_meet.wait()
            await self._kernel.sleep(MEET_SECONDS if self._lines else RETRY_SECONDS)
            problems: list[str] = []
            try:
                problems = await self._meet()
            except ClusterError as error:
                problems = [str(error)]
            if self._lines:
                none_since = None
                self._to_meet.clear()
            elif monotonic() - (none_since := none_since or monotonic()) > GIVE_UP_SECONDS:
                why = "; ".join(problems[:3]) or "the cluster has no nodes"
                raise BrokenExecutor(f"no node lends slots ({why})")
            self._owner.work.set()

    # --- slots -----------------------------------------------------------------------------------

    async def borrow(self, waiting: int) -> None:
        self._to_meet.set()
        starting = sum(not slot.is_ready for slot in self.slots.values())
        for _ in range(min(self.capacity - len(self.slots), waiting - starting)):
            line = self._line_to_borrow_from()
            if line is None:
                return
            self._borrow_from(line)

    def _line_to_borrow_from(self) -> HostLine | None:
        """The host that has lent the smallest share of its slots; None if all are lent."""
        lent = dict.fromkeys(self._lines, 0)
        for slot in self.slots.values():
            lent[slot.node] += 1
        free = [
            line
            for node, line in self._lines.items()
            if lent[node] < line.member.cores and not line.is_leaving
        ]
        return min(
            free,
            key=lambda line: (lent[line.member.node] / line.member.cores, line.member.node),
            default=None,
        )

    def _borrow_from(self, line: HostLine) -> None:
        self._lent += 1
        slot = RemoteSlot(self._lent, line.member.node, line.outgoing, self)
        self.slots[slot.id] = slot
        line.outgoing.put(BorrowSlot(slot.number, self._settings.time_limit_seconds))

    def on_given(self, slot: LentSlot, calls: int) -> None:
        """The host itself looks after the calls."""

    def _on_message(self, line: HostLine, message: ToCaller) -> None:
        if isinstance(message, HostLeaves):
            line.is_leaving = True
            self._kernel.spawn(self._move_out(line), f"move out of {line.member.node}")
            return
        if isinstance(message, ValuesBrought):
            self._on_brought(line, message)
            return
        slot = self.slots.get(TaskId(f"slot{message.slot}"))
        if not isinstance(slot, RemoteSlot):
            return
        match message:
            case CallsMade():
                slot.on_made(message)
                self._owner.take_results(slot)
            case SlotReady():
                slot.is_ready = True
            case CallsBack(_, tickets):
                self._owner.put_back(slot.on_back(tickets))
            case NeedsMissing(_, bundle, why):
                self._owner.try_again(slot.on_needs_missing(bundle, why), why)
            case LoanOver():
                self._on_over(slot, message)

    def _on_over(self, slot: RemoteSlot, over: LoanOver) -> None:
        del self.slots[slot.id]
        begun, back = slot.on_over(over.begun)
        if over.broken:
            self._owner.put_back([*begun, *back])
            self._owner.break_down(BrokenExecutor(over.broken))
        elif over.died:
            self._owner.on_process_died(begun, back, over.died, timed_out=over.timed_out)
        else:
            self._owner.put_back([*begun, *back])

    # --- values ----------------------------------------------------------------------------------

    async def _move_out(self, line: HostLine) -> None:
        """Have the values that only a leaving host has brought to others; then let it go."""
        node = line.member.node
        while any(slot.node == node for slot in self.slots.values()):
            await self._kernel.sleep(RETRY_SECONDS)
        others = [other for other in self._lines.values() if not other.is_leaving]
        alone = [value for value in self._referred() if value.holders == [node]]
        for number, value in enumerate(alone if others else ()):
            other = others[number % len(others)]
            value.holders.append(other.member.node)
            self._moving.add(value.name)
            other.outgoing.put(BringValues((Need(value.name, value.file.digest, (node,)),)))
        names = {value.name for value in alone}
        del alone
        while names & self._moving and node in self._lines:
            await self._kernel.sleep(RETRY_SECONDS)
        await line.socket.close()

    def _on_brought(self, line: HostLine, message: ValuesBrought) -> None:
        self._moving.difference_update(message.names)
        for name in message.missed:
            value = self._values.get(name)
            if value is not None:
                value.on_gone(line.member.node, "it could not be moved to another node")

    def _referred(self) -> list[RemoteValue]:
        """The values that somebody may still ask for, each once."""
        return [value for name, value in list(self._values.items()) if value.name == name]

    def on_new_value(self, value: RemoteValue) -> None:
        self._values[value.name] = value

    def lost_values(self) -> list[RemoteValue]:
        return [value for value in self._referred() if value.may_come_back]

    def fetch(self, value: RemoteValue) -> bytes:
        addresses = [self._addresses[node] for node in list(value.holders)]
        return read_value(value.file, addresses, self._context)

    def revive(self, value: RemoteValue, name: ValueName, why: str, back: Event) -> bool:
        if self._is_over or get_ident() == self._thread:
            return False
        try:
            self._loop.call_soon_threadsafe(self._revive, value, name, why, back)
        except RuntimeError:  # the loop has ended
            return False
        return True

    def _revive(self, value: RemoteValue, name: ValueName, why: str, back: Event) -> None:
        if value.name == name and why:  # else it has been made again meanwhile
            for node in list(value.holders):
                value.on_gone(node, why)
        if not value.may_come_back:
            back.set()
            return
        value.tell_when_back(back)
        self._owner.make_again(value)

    def on_dropped(self, name: ValueName, holders: list[NodeId]) -> None:
        is_first = not self._dropped
        self._dropped.append((name, holders))
        if is_first:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._tell_dropped)

    def _tell_dropped(self) -> None:
        names: dict[NodeId, list[ValueName]] = {}
        while self._dropped:
            name, holders = self._dropped.popleft()
            for node in holders:
                names.setdefault(node, []).append(name)
        for node, dropped in names.items():
            if node in self._lines:
                self._lines[node].outgoing.put(DropValues(tuple(dropped)))
