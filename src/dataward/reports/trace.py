"""Writes a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

Nodes are processes of the trace, executors are threads. Starts and ends are each rounded to whole
microseconds, so that spans that did not overlap in the run do not overlap in the trace.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import msgspec

from dataward.model.events import (
    Event,
    FaultInjected,
    FileMoved,
    NodeJoined,
    NodeLost,
    RunEnded,
    RunStarted,
    TaskReopened,
    TaskTakenOver,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import AttemptOutcome
from dataward.reports.attempts import Attempt, AttemptBook, Step
from dataward.reports.byte_sink import ByteSink
from dataward.reports.core_time import use_of

RECORDS_MAX = 1000  # in one piece
RUN = 1  # the process for records about no single node; for Perfetto, 0 is the idle process
FIRST_EXECUTOR = 1
FIRST_TRANSFER = 100_001  # after all executors

Record = dict[str, Any]


def write_chrome_trace(events: Iterable[Event], path: Path) -> None:
    """Write the trace to a file, compressed if its name ends in .gz; Perfetto reads either."""
    sink = ByteSink(path)
    try:
        for piece in chrome_trace(events):
            sink.write(piece)
    finally:
        sink.close()


def chrome_trace(events: Iterable[Event]) -> Iterator[bytes]:
    """The trace as one JSON document, in pieces; only what is under way is kept in memory.

    A span is written when it ends, so spans come in the order of their ends; viewers sort them.
    """
    tracer = _Tracer()
    separator = b""
    yield b'{"traceEvents":[\n'
    for records in _batches(tracer, events):
        yield separator + b",\n".join(map(msgspec.json.encode, records))
        separator = b",\n"
    about = msgspec.json.encode(tracer.about)
    yield b'\n],"displayTimeUnit":"ms","otherData":' + about + b"}\n"


def _batches(tracer: "_Tracer", events: Iterable[Event]) -> Iterator[list[Record]]:
    for event in events:
        tracer.add(event)
        if len(tracer.records) >= RECORDS_MAX:
            yield tracer.records
            tracer.records = []
    tracer.finish()
    if tracer.records:
        yield tracer.records


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


class _Process:
    """A node: its number in the trace, and which of its threads are in use."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.running = 0
        self.executor_of: dict[AttemptId, int] = {}
        self.executors = 0
        self.free: list[int] = []
        self.transfer_ends: list[float] = []  # by thread

    def take_executor(self, attempt: AttemptId) -> bool:
        """Give an attempt the lowest free executor; True if there was none and one was added."""
        added = not self.free
        if added:
            heappush(self.free, self.executors)
            self.executors += 1
        self.executor_of[attempt] = heappop(self.free)
        return added

    def free_executor(self, attempt: AttemptId) -> int:
        executor = self.executor_of.pop(attempt)
        heappush(self.free, executor)
        return executor

    def take_transfer(self, start: float, stop: float) -> tuple[int, bool]:
        """The lowest thread that is idle from ``start`` on, and whether it is new.

        Call it for transfers in the order they end.
        """
        for thread, end in enumerate(self.transfer_ends):
            if end <= start:
                self.transfer_ends[thread] = stop
                return thread, False
        self.transfer_ends.append(stop)
        return len(self.transfer_ends) - 1, True


class _Tracer:
    """Turns events into the trace's records; the caller takes them from ``records``."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.about: Record = {}
        self._processes: dict[NodeId, _Process] = {}
        self._running = 0
        self._latest = 0.0
        self._book = AttemptBook(self._on_step)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            RunStarted: self._on_run_started,
            RunEnded: self._on_run_ended,
            NodeJoined: self._on_node_joined,
            NodeLost: self._on_node_lost,
            FileMoved: self._on_file_moved,
            TaskTakenOver: self._on_taken_over,
            TaskReopened: self._on_reopened,
            FaultInjected: self._on_fault,
        }

    def add(self, event: Event) -> None:
        self._latest = max(self._latest, event.at)
        self._book.add(event)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def finish(self) -> None:
        self._book.end_all(self._latest, AttemptOutcome.UNDER_WAY)

    # --- attempts --------------------------------------------------------------------------------

    def _on_step(self, attempt: Attempt, step: Step, at: float) -> None:
        process = self._process(attempt.node)
        if step is Step.BEGAN:
            if process.take_executor(attempt.id):
                number = process.executors - 1
                self._name_thread(process, FIRST_EXECUTOR + number, f"executor {number}")
        elif step is Step.RAN:
            self._count(process, at, 1)
        elif step is Step.WROTE:
            self._count(process, at, -1)
        elif step is Step.ENDED:
            if attempt.running is not None and attempt.stage_out is None:
                self._count(process, at, -1)
            self._write(attempt, process, FIRST_EXECUTOR + process.free_executor(attempt.id))

    def _write(self, attempt: Attempt, process: _Process, thread: int) -> None:
        about: Record = {
            "task": attempt.task,
            "attempt": attempt.id,
            "outcome": attempt.outcome.value,
        }
        if attempt.replica:
            about["replica"] = True
        if attempt.running is not None:
            about["use"] = use_of(attempt).value
        if attempt.reason:
            about["reason"] = attempt.reason
        moments = (
            ("stage-in", attempt.began),
            ("waiting for a core", attempt.staged),
            ("running", attempt.running),
            ("stage-out", attempt.stage_out),
        )
        steps = [(name, _micros(at)) for name, at in moments if at is not None]
        stops = [at for _, at in steps[1:]] + [_micros(attempt.ended)]
        for (name, start), stop in zip(steps, stops, strict=True):
            # Most attempts do not wait for a core; only such empty waits are left out.
            if stop > start or name != "waiting for a core":
                self._span(process, thread, name, f"{name} {attempt.task}", start, stop, about)

    def _count(self, process: _Process, at: float, change: int) -> None:
        process.running += change
        self._running += change
        for number, running in ((process.number, process.running), (RUN, self._running)):
            self._record("C", number, "running tasks", ts=_micros(at), args={"running": running})

    # --- everything else -------------------------------------------------------------------------

    def _on_run_started(self, event: RunStarted) -> None:
        self.about = {
            "workflow": event.workflow,
            "strategy": event.strategy,
            "seed": event.seed,
            "tasks": event.tasks,
        }
        self._name_process(RUN, f"run of {event.workflow}")
        for facts in sorted(event.nodes, key=lambda facts: facts.id):
            self._process(facts.id)

    def _on_run_ended(self, event: RunEnded) -> None:
        self._instant(RUN, "g", "run ended", event.at)

    def _on_node_joined(self, event: NodeJoined) -> None:
        about = {"incarnation": event.incarnation}
        self._instant(self._process(event.node).number, "p", "node joined", event.at, about)

    def _on_node_lost(self, event: NodeLost) -> None:
        self._instant(self._process(event.node).number, "p", "node crashed", event.at)

    def _on_file_moved(self, event: FileMoved) -> None:
        process = self._process(event.target)
        start = max(event.at - event.seconds, 0.0)
        number, added = process.take_transfer(start, event.at)
        if added:
            self._name_thread(process, FIRST_TRANSFER + number, f"transfer {number}")
        about = {"file": event.file, "from": event.source, "bytes": event.size_bytes}
        name = f"from {event.source}"
        thread = FIRST_TRANSFER + number
        self._span(process, thread, "transfer", name, _micros(start), _micros(event.at), about)

    def _on_taken_over(self, event: TaskTakenOver) -> None:
        about = {"task": event.task, "incarnation": event.incarnation}
        self._instant(self._process(event.node).number, "p", "task taken over", event.at, about)

    def _on_reopened(self, event: TaskReopened) -> None:
        about = {"task": event.task, "generation": event.generation}
        self._instant(RUN, "g", "task reopened", event.at, about)

    def _on_fault(self, event: FaultInjected) -> None:
        self._instant(RUN, "g", f"fault: {event.kind}", event.at, {"where": event.where})

    # --- records ---------------------------------------------------------------------------------

    def _process(self, node: NodeId) -> _Process:
        process = self._processes.get(node)
        if process is None:
            process = self._processes[node] = _Process(RUN + 1 + len(self._processes))
            self._name_process(process.number, node)
        return process

    def _name_process(self, number: int, name: str) -> None:
        self._record("M", number, "process_name", args={"name": name})
        self._record("M", number, "process_sort_index", args={"sort_index": number})

    def _name_thread(self, process: _Process, thread: int, name: str) -> None:
        self._record("M", process.number, "thread_name", tid=thread, args={"name": name})
        order = {"sort_index": thread}
        self._record("M", process.number, "thread_sort_index", tid=thread, args=order)

    def _span(
        self,
        process: _Process,
        thread: int,
        category: str,
        name: str,
        start: int,
        stop: int,
        about: Record,
    ) -> None:
        lasted = stop - start
        self._record(
            "X", process.number, name, cat=category, tid=thread, ts=start, dur=lasted, args=about
        )

    def _instant(
        self, process: int, scope: str, name: str, at: float, about: Record | None = None
    ) -> None:
        self._record("i", process, name, s=scope, tid=process, ts=_micros(at), args=about or {})

    def _record(self, kind: str, process: int, name: str, **more: Any) -> None:
        self.records.append({"ph": kind, "pid": process, "name": name, **more})
