"""The simulated links: latencies of messages, and files that share links max-min fairly."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dataward.kernel.fibers import VirtualFlag
from dataward.kernel.timeline import Timer
from dataward.kernel.virtual import VirtualKernel
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Platform
from dataward.sim.network_flows import FlowNetwork, LinkIndex, Transfer
from dataward.world import TransferFailed


@dataclass(frozen=True, slots=True)
class Links:
    """A machine's own links: its disk, and its network interface each way."""

    disk: LinkIndex
    up: LinkIndex
    down: LinkIndex


@dataclass(slots=True)
class Move:
    """Bytes on their way between two nodes; ``failed`` if they will not arrive."""

    number: int
    done: VirtualFlag
    ends: tuple[NodeId, NodeId]
    transfer: Transfer | None = None
    failed: bool = False


@dataclass
class Fabric:
    """All links of a platform, and the files that move over them."""

    kernel: VirtualKernel
    platform: Platform
    flows: FlowNetwork = field(default_factory=FlowNetwork)
    _moves: dict[NodeId, dict[int, Move]] = field(default_factory=dict)
    _timer: Timer | None = None
    _due: float = float("inf")
    _settling: bool = False
    _count: int = 0

    def __post_init__(self) -> None:
        self._described: list[float] = []

        def add(bytes_per_second: float) -> LinkIndex:
            self._described.append(bytes_per_second)
            return self.flows.add_link(bytes_per_second)

        self.links = {
            machine.id: Links(
                add(machine.disk_bytes_per_second),
                add(machine.up_bytes_per_second),
                add(machine.down_bytes_per_second),
            )
            for machine in self.platform.machines
        }
        self._site_of = {machine.id: machine.site for machine in self.platform.machines}
        self._origin = add(self.platform.origin_bytes_per_second)
        sites = list(dict.fromkeys(self._site_of.values()))
        speed = self.platform.site_bytes_per_second
        self._site_links = (
            {site: (add(speed), add(speed)) for site in sites} if speed < float("inf") else {}
        )

    # --- where things go -------------------------------------------------------------------------

    def route(self, source: NodeId, target: NodeId) -> tuple[LinkIndex, ...]:
        """The links a file crosses, from disk to disk; the origin's disk is never the limit."""
        to = self.links[target]
        here = self._site_of.get(source, self.platform.origin_site)
        there = self._site_of[target]
        between: tuple[LinkIndex, ...] = ()
        if here != there and self._site_links:
            leaving = (self._site_links[here][0],) if here in self._site_links else ()
            between = (*leaving, self._site_links[there][1])
        if source not in self.links:
            return (self._origin, *between, to.down, to.disk)
        start = self.links[source]
        return (start.disk, start.up, *between, to.down, to.disk)

    def described_rate(self, source: NodeId, target: NodeId) -> float:
        """Bytes per second by the platform, which knows nothing of machines that are slow today."""
        return min([self._described[link] for link in self.route(source, target)])

    def latency(self, source: NodeId, target: NodeId) -> float:
        here = self._site_of.get(source, self.platform.origin_site)
        away = here != self._site_of.get(target, self.platform.origin_site)
        base = self.platform.latency_seconds
        return base + self.platform.site_latency_seconds if away else base

    # --- bytes -----------------------------------------------------------------------------------

    async def move(
        self, links: tuple[LinkIndex, ...], size_bytes: int, ends: tuple[NodeId, NodeId]
    ) -> None:
        """Carry bytes over links. Raises TransferFailed if an end fails on the way."""
        self._count += 1
        move = Move(self._count, self.kernel.flag(), ends)
        move.transfer = self.flows.start(self.kernel.time, links, float(size_bytes), move)
        for end in ends:
            self._moves.setdefault(end, {})[move.number] = move
        self._settle_soon()
        try:
            await move.done.wait()
        finally:
            self._end(move)
        if move.failed:
            raise TransferFailed(f"{ends[0]} stopped sending to {ends[1]}")

    def _end(self, move: Move) -> None:
        for end in move.ends:
            self._moves[end].pop(move.number, None)
        if not move.done.is_set():
            assert move.transfer is not None
            self.flows.cancel(self.kernel.time, move.transfer)
            self._settle_soon()

    def cut(self, node: NodeId, from_others: Callable[[NodeId], bool] = lambda _: True) -> None:
        """Fail all moves between a node and the others for which ``from_others`` is true."""
        for move in list(self._moves.get(node, {}).values()):
            far = move.ends[0] if move.ends[1] == node else move.ends[1]
            if from_others(far):
                move.failed = True
                self._end(move)
                move.done.set()

    def _settle_soon(self) -> None:
        """Compute the new rates once every change of this instant has been made."""
        if not self._settling:
            self._settling = True
            self.kernel.call_at(self.kernel.time, self._settle)

    def _settle(self) -> None:
        self._settling = False
        for move in self.flows.advance(self.kernel.time):
            assert isinstance(move, Move)
            move.done.set()
        due = self.flows.next_completion()
        if due != self._due or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = None
            if due < float("inf"):
                self._timer = self.kernel.call_at(due, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        self._settle()

    def slow_down(self, machine: Machine, factor: float) -> None:
        """Change the speed of a machine's links and disk."""
        links, now = self.links[machine.id], self.kernel.time
        self.flows.set_capacity(now, links.disk, machine.disk_bytes_per_second * factor)
        self.flows.set_capacity(now, links.up, machine.up_bytes_per_second * factor)
        self.flows.set_capacity(now, links.down, machine.down_bytes_per_second * factor)
        self._settle_soon()
