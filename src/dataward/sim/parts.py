"""The simulated parts of a node's `World`: network, disk and runner."""

from dataclasses import dataclass

from dataward.kernel.fibers import VirtualQueue
from dataward.model.events import Emit, FileMoved
from dataward.model.messages import Message
from dataward.model.operations import (
    ORIGIN,
    AttemptId,
    Commit,
    InputFile,
    NodeId,
    OutputFile,
    TaskSpec,
)
from dataward.model.workflow import FileId
from dataward.node.slots import Slots
from dataward.sim.fabric import Fabric
from dataward.sim.host import Host
from dataward.sim.interference import Interference
from dataward.world import DiskFull, OnStart, RunResult, StoredFile, TransferFailed


@dataclass
class Traffic:
    """What all nodes share on the way to each other."""

    fabric: Fabric
    interference: Interference
    hosts: dict[NodeId, Host]
    inboxes: dict[NodeId, VirtualQueue[Message]]
    emit: Emit
    messages: int = 0

    def deliver(self, target: NodeId, message: Message) -> None:
        if self.hosts[target].up:
            self.inboxes[target].put(message)


@dataclass
class SimNetwork:
    traffic: Traffic
    host: Host
    inbox: VirtualQueue[Message]

    def send(self, to: NodeId, message: Message) -> None:
        traffic, source = self.traffic, self.host.machine.id
        traffic.messages += 1
        kernel = traffic.fabric.kernel
        for delay in traffic.interference.delivery_delays(source, to):
            at = kernel.now() + traffic.fabric.latency(source, to) + delay
            kernel.call_at(at, traffic.deliver, to, message)

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        """Ask for the file (a round trip), then let it flow; check it is there at both moments."""
        traffic, target = self.traffic, self.host.machine.id
        kernel = traffic.fabric.kernel
        began = kernel.now()
        await kernel.sleep(2 * traffic.fabric.latency(source, target))
        self._check(file, source)
        await traffic.fabric.move(
            traffic.fabric.route(source, target), file.size_bytes, (source, target)
        )
        self._check(file, source)
        owner = file.producer or file.id
        self.host.stored.put(file.id, file.size_bytes, owner, written=False, digest=file.digest)
        now = kernel.now()
        traffic.emit(FileMoved(now, file.id, source, target, file.size_bytes, now - began))

    def _check(self, file: InputFile, source: NodeId) -> None:
        if not self.traffic.interference.reaches(source, self.host.machine.id):
            raise TransferFailed(f"{source} cannot be reached")
        if source == ORIGIN:
            return
        host = self.traffic.hosts[source]
        stored = host.stored.files.get(file.id)
        if stored is None or not (host.up and host.serves):
            raise TransferFailed(f"{source} does not serve {file.id!r}")
        if file.digest and stored.digest != file.digest:
            raise TransferFailed(f"{source} has another {file.id!r}")


def digest_of(task: str, file: str) -> str:
    """What a simulated task writes is told apart by who wrote what, and the same every time."""
    return f"{task}/{file}"


@dataclass
class SimDisk:
    host: Host
    fabric: Fabric

    @property
    def capacity_bytes(self) -> float:
        return self.host.capacity_bytes

    def files(self) -> list[StoredFile]:
        return list(self.host.stored.files.values())

    async def open_inputs(self, task: TaskSpec) -> None:
        """A task reads its inputs through, at the disk's speed."""
        await self._pass(sum(file.size_bytes for file in task.inputs))

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        size_bytes = sum(file.size_bytes for file in task.outputs)
        if self.host.stored.used_bytes + size_bytes > self.host.capacity_bytes:
            raise DiskFull(f"the disk of {self.host.machine.id} is full")
        await self._pass(size_bytes)
        outputs = tuple(
            OutputFile(file.id, file.size_bytes, digest_of(task.id, file.id))
            for file in task.outputs
        )
        for file in outputs:
            self.host.stored.put(
                file.id, file.size_bytes, task.id, written=True, digest=file.digest
            )
        return outputs

    async def _pass(self, size_bytes: int) -> None:
        if size_bytes:
            node = self.host.machine.id
            await self.fabric.move((self.fabric.links[node].disk,), size_bytes, (node, node))

    def remove(self, file: FileId) -> None:
        self.host.stored.remove(file)

    def journal(self, commit: Commit) -> None:
        self.host.stored.commits.append(commit)

    def journalled(self) -> list[Commit]:
        return self.host.stored.commits


@dataclass
class SimRunner:
    """Runs a task by waiting for as long as it would take, however the speed changes."""

    host: Host
    failures: dict[str, int]  # how many more times each task will fail by itself

    def __post_init__(self) -> None:
        self._cores = Slots(self.host.kernel, self.host.machine.cores)

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        cores = min(task.cores, self._cores.total)
        await self._cores.take(cores)
        try:
            on_start(self.host.kernel.now())
            return await self._run(task)
        finally:
            self._cores.give_back(cores)

    async def _run(self, task: TaskSpec) -> RunResult:
        started = self.host.kernel.now()
        left = task.runtime_seconds
        while left > 0:
            speed, began = self.host.speed, self.host.kernel.now()
            if not await self.host.speed_changed.wait(left / speed):
                break
            left -= (self.host.kernel.now() - began) * speed
        if self.failures.get(task.id, 0) > 0:
            self.failures[task.id] -= 1
            return self._ended(started, exit_code=1, error="the task failed by itself")
        return self._ended(started)

    def _ended(self, started: float, exit_code: int = 0, error: str = "") -> RunResult:
        """A simulated task computes all the time it runs."""
        now = self.host.kernel.now()
        seconds = now - started
        return RunResult(now, error, exit_code, wall_seconds=seconds, cpu_seconds=seconds)
