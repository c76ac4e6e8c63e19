"""The simulated parts of a node's `World`: network, disk and runner."""

from collections.abc import Sequence
from dataclasses import dataclass

from dataward.kernel.fibers import VirtualQueue
from dataward.model.events import Emit, FileMoved
from dataward.model.ids import ORIGIN, AttemptId, NodeId
from dataward.model.messages import Message
from dataward.model.operations import Commit, InputFile, OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId
from dataward.node.slots import Slots
from dataward.sim.digests import digest_of
from dataward.sim.fabric import Fabric
from dataward.sim.interference import Interference
from dataward.sim.sim_machine import SimMachine
from dataward.sim.truth import Truth
from dataward.world import DiskFull, InputLost, OnStart, RunResult, StoredFile, TransferFailed

TRIAL_SECONDS = 0.001  # about what a live node takes for one


@dataclass
class Traffic:
    """What the networks of all nodes share: links, faults, machines and inboxes."""

    fabric: Fabric
    interference: Interference
    machines: dict[NodeId, SimMachine]
    inboxes: dict[NodeId, VirtualQueue[Message]]
    emit: Emit
    messages: int = 0

    def deliver(self, target: NodeId, message: Message) -> None:
        if self.machines[target].up:
            self.inboxes[target].put(message)


@dataclass
class SimNetwork:
    traffic: Traffic
    machine: SimMachine
    inbox: VirtualQueue[Message]
    together_bytes: int = 0  # the papers' files come one by one, however small

    def doubts(self, node: NodeId) -> bool:
        """A simulated node remembers nothing of failures: the papers' nodes do not."""
        return False

    def send(self, to: NodeId, message: Message) -> None:
        traffic, source = self.traffic, self.machine.spec.id
        traffic.messages += 1
        kernel = traffic.fabric.kernel
        for delay in traffic.interference.delivery_delays(source, to):
            at = kernel.time + traffic.fabric.latency(source, to) + delay
            kernel.call_at(at, traffic.deliver, to, message)

    def expected_rate(self, source: NodeId) -> float | None:
        return self.traffic.fabric.described_rate(source, self.machine.spec.id)

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        """Ask for the file (a round trip), then move it; check before and after if it is there."""
        traffic, target = self.traffic, self.machine.spec.id
        kernel = traffic.fabric.kernel
        began = kernel.time
        await kernel.sleep(2 * traffic.fabric.latency(source, target))
        size_bytes, digest = self._offered(file, source)
        await traffic.fabric.move(
            traffic.fabric.route(source, target), size_bytes, (source, target)
        )
        if self._offered(file, source) != (size_bytes, digest):
            raise TransferFailed(f"{source} has had another {file.id!r} meanwhile")
        owner = file.producer or file.id
        self.machine.stored.put(file.id, size_bytes, owner, written=False, digest=digest)
        now = kernel.time
        traffic.emit(FileMoved(now, file.id, source, target, size_bytes, now - began))

    def _offered(self, file: InputFile, source: NodeId) -> tuple[int, str]:
        """The size and digest of the source's file, which may differ from those asked for."""
        if not self.traffic.interference.reaches(source, self.machine.spec.id):
            raise TransferFailed(f"{source} cannot be reached")
        if source == ORIGIN:
            return file.size_bytes, file.digest
        machine = self.traffic.machines[source]
        stored = machine.stored.files.get(file.id)
        if stored is None or not (machine.up and machine.serves):
            raise TransferFailed(f"{source} does not serve {file.id!r}")
        if file.digest and stored.digest != file.digest:
            raise TransferFailed(f"{source} has a different {file.id!r}")
        return stored.size_bytes, stored.digest


@dataclass
class SimDisk:
    machine: SimMachine
    fabric: Fabric
    truth: Truth

    @property
    def capacity_bytes(self) -> float:
        return self.machine.capacity_bytes

    def files(self) -> list[StoredFile]:
        return list(self.machine.stored.files.values())

    def keep(self, file: InputFile) -> None:
        if file.id in self.machine.stored.files:
            self.machine.stored.keep(file.id)

    def is_wanted(self, file: FileId) -> bool:
        return False  # what tasks read is no result

    async def open_inputs(self, task: TaskSpec) -> None:
        """Charge for reading all inputs at the disk's speed."""
        if lost := self.machine.missing(task.inputs):
            raise InputLost(lost)
        stored, size_bytes = self.machine.stored.files, 0
        for file in task.inputs:
            if (held := stored.get(file.id)) is not None:
                size_bytes += held.size_bytes
        await self._pass(size_bytes)

    def output_bytes(self, task: TaskSpec) -> int:
        return sum(self.truth.size_bytes[file.id] for file in task.outputs)

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        size_bytes = self.output_bytes(task)
        self._check_room(size_bytes)
        await self._pass(size_bytes)
        self._check_room(size_bytes)  # other tasks may have written meanwhile
        outputs = tuple(
            OutputFile(file.id, self.truth.size_bytes[file.id], digest_of(task.id, file.id))
            for file in task.outputs
        )
        for file in outputs:
            self.machine.stored.write(file.id, file.size_bytes, task.id, file.digest)
        return outputs

    def _check_room(self, size_bytes: int) -> None:
        if self.machine.stored.used_bytes + size_bytes > self.machine.capacity_bytes:
            raise DiskFull(f"the disk of {self.machine.spec.id} is full")

    def recall(self, file: OutputFile, task: TaskId) -> bool:
        if self.machine.stored.earlier.pop(file.id, None) != file.digest:
            return False
        self.machine.stored.put(file.id, file.size_bytes, task, written=True, digest=file.digest)
        return True

    async def sync(self) -> None:
        """Charge for one sync of the disk: the bytes were when the outputs were stored.

        A disk that filled up since then has no room for what was not synced.
        """
        unsafe = list(self.machine.stored.unsafe)
        if unsafe and self.machine.spec.sync_seconds:
            await self.machine.kernel.sleep(self.machine.spec.sync_seconds)
        if self.machine.stored.unsafe:
            self._check_room(0)
        self.machine.stored.sync(unsafe)

    async def _pass(self, size_bytes: int) -> None:
        if size_bytes:
            node = self.machine.spec.id
            await self.fabric.move((self.fabric.links[node].disk,), size_bytes, (node, node))

    def remove(self, file: FileId) -> None:
        self.machine.stored.remove(file)

    def journal(self, commit: Commit) -> None:
        self.machine.stored.commits.append(commit)

    def journalled(self) -> list[Commit]:
        return self.machine.stored.commits


@dataclass
class SimRunner:
    """Runs a task by waiting for as long as it would take, as the speed changes."""

    machine: SimMachine
    failures: dict[str, int]  # how many more times each task will fail by its own error
    truth: Truth

    def __post_init__(self) -> None:
        self._cores = Slots(self.machine.kernel, self.machine.spec.cores)
        self._owed_seconds = 0.0  # of a core, for trials: the next task has to wait for that

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        cores = min(task.cores, self._cores.total)
        await self._cores.take(cores)
        try:
            if lost := self.machine.missing(task.inputs):
                raise InputLost(lost)
            on_start(self.machine.kernel.time)
            return await self._run(task)
        finally:
            self._cores.give_back(cores)

    async def crowded(self) -> None:
        await self.machine.kernel.flag().wait()  # for ever: no other run is on this machine

    def taken_seconds(self) -> Sequence[float]:
        return ()

    async def trial(self) -> float:
        """If all cores are busy, a task pays for the trial: the next one takes so much longer."""
        began = self.machine.kernel.time
        if self._cores.free <= 0:
            self._owed_seconds += TRIAL_SECONDS
        await self._compute(TRIAL_SECONDS)
        return self.machine.kernel.time - began

    async def _compute(self, seconds: float) -> None:
        """Wait for as long as a machine of speed 1 would need so many seconds for."""
        left = seconds
        while left > 0:
            speed, began = self.machine.speed, self.machine.kernel.time
            if not await self.machine.speed_changed.wait(left / speed):
                break
            left -= (self.machine.kernel.time - began) * speed

    async def _run(self, task: TaskSpec) -> RunResult:
        started = self.machine.kernel.time
        owed, self._owed_seconds = self._owed_seconds, 0.0
        await self._compute(self.truth.seconds[task.id] + owed)
        if self.failures.get(task.id, 0) > 0:
            self.failures[task.id] -= 1
            return self._ended(started, exit_code=1, error="the task failed by itself")
        return self._ended(started)

    def _ended(self, started: float, exit_code: int = 0, error: str = "") -> RunResult:
        """The result of a run: a simulated task uses the processor all the time it runs."""
        now = self.machine.kernel.time
        seconds = now - started
        return RunResult(now, error, exit_code, wall_seconds=seconds, cpu_seconds=seconds)
