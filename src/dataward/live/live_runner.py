"""Runs a node's tasks in its runner processes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from dataward.kernel.realtime import AsyncioKernel
from dataward.live.command import is_disk_full
from dataward.live.depot_disk import DepotDisk
from dataward.live.orders import CALLS, Limits, Order, Report
from dataward.live.runner_pool import ProcessDied, RunnerPool
from dataward.live.runner_settings import RunnerSettings
from dataward.model.function_calls import CALL
from dataward.model.ids import AttemptId
from dataward.model.operations import InputFile, TaskSpec
from dataward.model.states import FailureCause
from dataward.model.workflow import FileId, TaskId
from dataward.world import DiskFull, InputLost, OnStart, RunResult

# How long a report may wait to be sent with the next ones: waking the node takes as long as a short
# command. A report that no other task waits for may wait longer.
HOLD_SECONDS = 0.003
HOLD_UNAWAITED_SECONDS = 0.04

TRIALS = 3
TRIAL_ROUNDS = 14_000  # some tenths of a millisecond


def _trial_seconds() -> float:
    """How long a computation takes that is always the same."""
    began, total = perf_counter(), 0
    for number in range(TRIAL_ROUNDS):
        total ^= number
    return perf_counter() - began


def _begun_before(at: float) -> None:
    """Ignore the second start: the first was already reported."""


@dataclass
class LiveRunner:
    kernel: AsyncioKernel
    pool: RunnerPool
    disk: DepotDisk
    settings: RunnerSettings
    log_stem: Callable[[TaskId, AttemptId], str]
    spoil_elsewhere: Callable[[FileId, DepotDisk], None]  # on this machine's other disks
    run_name: str = ""  # where several runs share the pool
    is_alone: bool = True  # else a full disk or a lost input is no failure: others may help

    def __post_init__(self) -> None:
        self._limits: dict[int, Limits] = {}  # by memory: most tasks declare the same

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        while True:
            missing = [file for file in task.inputs if self.disk.where(file.id) is None]
            if missing:  # spoiled and dropped since they were staged
                return self._without(missing)
            order = self._order(task, attempt)
            try:
                report = await self._carry_out(order, on_start, task.estimated_seconds)
            except ProcessDied as died:
                self._refuse_if_full(str(died))
                timed_out = died.end.timed_out
                cause = FailureCause.TIME_LIMIT if timed_out else FailureCause.PROCESS_DIED
                return RunResult(self.kernel.now(), str(died), exit_code=1, cause=cause)
            if not report.gone:
                break
            self._strike_off(FileId(report.gone), order)
            if self.disk.where(FileId(report.gone)) is None:
                return self._without([file for file in task.inputs if file.id == report.gone])
            on_start = _begun_before  # the file was made again while the order was on its way
        for name in report.spoiled:
            self._strike_off(FileId(name), order)
            self.spoil_elsewhere(FileId(name), self.disk)
        if report.error:
            self._refuse_if_full(report.error)
        else:
            self.disk.wrote(task.id, report.outputs)
        return RunResult(
            self.kernel.time_at(report.ended_at),
            report.error,
            report.exit_code,
            report.signal,
            report.wall_seconds,
            report.cpu_seconds,
            report.peak_memory_bytes,
            FailureCause.TIME_LIMIT if report.timed_out else FailureCause.TASK,
        )

    async def trial(self) -> float:
        """Takes about a millisecond, in the node's own process, which does nothing else then.

        Of a few, the shortest counts, that was disturbed the least. So it tells of a processor that
        is slow, and not of processes that wait for one.
        """
        return min(_trial_seconds() for _ in range(TRIALS))

    async def crowded(self) -> None:
        waits = asyncio.Event()
        self.pool.watch(waits.set)
        try:
            await waits.wait()
        finally:
            self.pool.unwatch(waits.set)

    def taken_seconds(self) -> Sequence[float]:
        return self.pool.taken_seconds(self.run_name)

    def _refuse_if_full(self, error: str) -> None:
        """Raise DiskFull if the disk is full even now that what the task wrote is gone."""
        if not self.is_alone and is_disk_full(self.disk.directory):
            raise DiskFull(error)

    def _strike_off(self, file: FileId, order: Order) -> None:
        """Tell the disk that the file is no longer at the path that the order named."""
        for known in order.inputs:
            if known.name == file:
                self.disk.is_gone(file, known.path)

    def _without(self, files: Sequence[InputFile]) -> RunResult:
        """The result of a task whose inputs are gone.

        Raises InputLost if tasks of this run write the files, and so can make them again, or if
        other nodes may have them.
        """
        for file in files:
            if self.is_alone and not file.producer:
                error = f"its input {file.id!r} is gone; the next run makes it again"
                return RunResult(self.kernel.now(), error, 1)
        raise InputLost(files)

    async def _carry_out(self, order: Order, on_start: OnStart, seconds: float) -> Report:
        def on_begin(at: float) -> None:
            on_start(self.kernel.time_at(at))

        try:
            return await self.pool.carry_out(order, on_begin, self.run_name, seconds)
        except ProcessDied:
            if order.is_calls:
                raise  # most likely the calls' own doing: whoever made the calls decides
        # A command has its own process and did not kill the runner process: it is run again.
        return await self.pool.carry_out(order, run=self.run_name, seconds=seconds)

    def _order(self, task: TaskSpec, attempt: AttemptId) -> Order:
        memory = int(task.memory_bytes)
        limits = self._limits.get(memory)
        if limits is None:
            limits = self._limits[memory] = self.settings.limits(memory)
        return Order(
            task=task.id,
            command=task.command,
            is_calls=task.command[0] in (CALLS, CALL),
            inputs=self.disk.inputs_of(task),
            outputs=tuple(file.id for file in task.outputs),
            depot=self.disk.directory,
            logs=self.log_stem(task.id, attempt),
            cores=task.cores,
            limits=limits,
            hold_seconds=HOLD_SECONDS if task.children else HOLD_UNAWAITED_SECONDS,
            launch=task.launch,
        )
