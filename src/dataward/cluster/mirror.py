"""A run of the cluster as a run directory on this machine, so that every report can be made of it.

The record has the workflow, the events of all hosts as one list, and the logs that were asked for.
While the run goes on the directory is locked, as by a run of this machine.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from dataward.cluster.event_tail import EventTail
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.results import workflow_of
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import FormatError
from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.states import RunState, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.event_file import EventFileWriter
from dataward.runs.run_directory import RunDirectory, RunFacts, RunRecord

LATE_SECONDS = (0.2, 0.8)  # in which a host writes what it has told the store already


@dataclass(frozen=True, slots=True)
class ToldEvents:
    """The events that hosts tell now; none of them is of the end of ``untold`` complete tasks.

    The hosts that ran those tasks are not up, or have lost their depots.
    """

    events: list[Event]
    untold: int


def parents_of(workflow: Workflow) -> dict[TaskId, tuple[TaskId, ...]]:
    ids = workflow.task_ids
    return {
        ids[task]: tuple(ids[parent] for parent in row)
        for task, row in enumerate(workflow.parents.rows())
    }


async def mirrored(
    visitor: Visitor, name: str, path: Path, stack: ExitStack, logs_of: Sequence[TaskId] = ()
) -> RunRecord:
    """The record of a run as it is now, in a directory that is locked while the run goes on."""
    await visitor.cluster()
    facts = await visitor.run(name)
    directory = RunDirectory(path)
    directory.make()
    lock = directory.lock()
    if facts.run.state is RunState.RUNNING:
        stack.callback(lock.release)
    else:
        lock.release()
    record = directory.new_record()
    workflow = await workflow_of(visitor, facts.run, record.path)
    told = await _told_of(visitor, facts, workflow)
    with EventFileWriter(record.events) as events:
        events.add_all(told.events)
    for task in logs_of:
        await bring_logs(visitor, name, record, task, list(visitor.members))
    known = msgspec.structs.replace(run_facts_of(facts), untold=told.untold)
    await asyncio.to_thread(record.begin, known)
    return record


async def _told_of(visitor: Visitor, facts: RunFactsNow, workflow: Workflow) -> ToldEvents:
    """What hosts tell of a run; those that are about to write more are waited for."""
    tail = EventTail(visitor, facts.run.name, parents_of(workflow))
    complete = facts.counts.get(TaskState.COMPLETE.value, 0)
    found = await tail.new_events()
    for pause in LATE_SECONDS:
        if len(tail.complete) >= complete:
            break
        await asyncio.sleep(pause)
        found += await tail.new_events()
    return ToldEvents([*found, *tail.rest()], max(complete - len(tail.complete), 0))


async def bring_logs(
    visitor: Visitor, name: str, record: RunRecord, task: TaskId, nodes: Sequence[NodeId]
) -> None:
    """Bring what a task printed at these nodes into a record; those that do not answer are left."""
    for node in nodes:
        try:
            logs = await visitor.logs(name, node, task)
        except ClusterError:
            continue
        for log, content in logs.items():
            if "/" in log or log.startswith("."):
                raise FormatError(f"the logs of {node}", f"have an odd name {log!r}")
            (record.logs / log).write_bytes(content)


def run_facts_of(now: RunFactsNow) -> RunFacts:
    run, counts = now.run, now.counts
    ended = run.ended_at or now.now
    done = {end: counts.get(end.value, 0) for end in TaskState}
    return msgspec.structs.replace(
        RunFacts(run.workflow, run.name, run.submitted_at, cluster_run=run.name),
        strategy=run.strategy,
        state=run.state,
        makespan_seconds=max(ended - run.submitted_at, 0.0),
        tasks=run.tasks,
        complete=done[TaskState.COMPLETE],
        failed=done[TaskState.FAILED],
        removed=done[TaskState.REMOVED],
        skipped=run.skipped,
    )


async def written_events(visitor: Visitor, name: str, path: Path) -> ToldEvents:
    """What was written to a file: the events of a run as one list."""
    await visitor.cluster()
    facts = await visitor.run(name)
    with TemporaryDirectory(prefix="dataward-") as directory:
        workflow = await workflow_of(visitor, facts.run, Path(directory))
    told = await _told_of(visitor, facts, workflow)
    with EventFileWriter(path) as events:
        events.add_all(told.events)
    return told
