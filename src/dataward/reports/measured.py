"""Makes a workflow with the run times, memory and file sizes that a run has measured."""

from collections.abc import Iterable

from dataward.model.builder import WorkflowBuilder
from dataward.model.edges import Edges
from dataward.model.events import AttemptAdvanced, AttemptMeasured, Event, FileStored, TaskFinished
from dataward.model.ids import AttemptId
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId, Workflow


class Measurements:
    """The measurements in runs' events: of the winning attempt of each task, and of its files.

    Where a task ran in several runs, the last of them counts.
    """

    def __init__(self, runs: Iterable[Iterable[Event]]) -> None:
        self.sizes: dict[FileId, int] = {}
        self._of: dict[TaskId, AttemptMeasured] = {}
        self._core_seconds: dict[TaskId, float] = {}
        for events in runs:
            self._add(events)

    def _add(self, events: Iterable[Event]) -> None:
        """Add those of one run: another may have attempts of the same names."""
        attempts: dict[AttemptId, AttemptMeasured] = {}
        winners: dict[TaskId, AttemptId] = {}
        running: dict[AttemptId, float] = {}
        busy: dict[AttemptId, float] = {}
        for event in events:
            if isinstance(event, AttemptMeasured):
                attempts[event.attempt] = event
            elif isinstance(event, AttemptAdvanced):
                if event.state is TaskState.RUNNING:
                    running[event.attempt] = event.at
                elif event.state is TaskState.STAGE_OUT and event.attempt in running:
                    busy[event.attempt] = event.at - running[event.attempt]
            elif isinstance(event, FileStored):
                self.sizes[event.file] = event.size_bytes
            elif isinstance(event, TaskFinished) and event.state is TaskState.COMPLETE:
                winners[event.task] = event.attempt
        for task, winner in winners.items():
            self._of.pop(task, None)
            if winner in attempts:
                self._of[task] = attempts[winner]
                self._core_seconds[task] = busy.get(winner, 0.0)

    def of(self, task: TaskId) -> AttemptMeasured | None:
        """The measurement of the attempt that made the task's outputs; None if unknown."""
        return self._of.get(task)

    def seconds_of(self, task: TaskId) -> float:
        """How long the task had its cores: to run, to have its inputs linked, its outputs taken.

        With hundreds of inputs, or a quick command, that is longer than the command itself took.
        """
        return max(self._of[task].wall_seconds, self._core_seconds[task])


def measured_workflow(workflow: Workflow, runs: Iterable[Iterable[Event]]) -> Workflow:
    """The same tasks, files and edges, with measured values in place of declared ones.

    ``runs`` are the events of runs of the workflow, the earliest run first. A task that was not
    measured keeps its declared values, and a file that was not stored its size; one of the
    ``warnings`` says how many tasks were not measured. Raises BadValueError if a measurement makes
    no sense.
    """
    found = Measurements(runs)
    builder = WorkflowBuilder(workflow.name)
    builder.mark_measured()
    for file, size_bytes in zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True):
        size_bytes = found.sizes.get(file, size_bytes)
        builder.file(file, size_bytes, path=workflow.locations.get(file, ""))
    unmeasured = 0
    for index in range(len(workflow)):
        unmeasured += not _add_task(builder, workflow, index, found)
    if unmeasured:
        builder.warn(
            f"{unmeasured:,} of {len(workflow):,} tasks were not measured "
            "and keep their declared run times"
        )
    return builder.build(Edges.DECLARED)


def _add_task(
    builder: WorkflowBuilder, workflow: Workflow, index: int, found: Measurements
) -> bool:
    task = workflow.task(index)
    measured = found.of(task.id)
    seconds, memory_bytes = task.runtime_seconds, task.memory_bytes
    if measured is not None:
        seconds = found.seconds_of(task.id)
        memory_bytes = measured.peak_memory_bytes or memory_bytes  # 0: it could not be measured
    builder.task(
        task.id,
        name=task.name,
        command=task.command,
        inputs=task.inputs,
        outputs=task.outputs,
        after=[workflow.task_ids[parent] for parent in workflow.parents.row(index).tolist()],
        runtime_seconds=seconds,
        cores=task.cores,
        memory_bytes=memory_bytes,
        retries=task.retries,
        launch=task.launch,
    )
    return measured is not None
