"""A run of the cluster as a run directory on this machine, so that every report can be made of it.

The record has the workflow, the events of all hosts as one list, and the logs that were asked for.
While the run goes on the directory is locked, as by a run of this machine.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from dataward.cluster.event_tail import EventTail
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.results import workflow_of
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import FormatError
from dataward.model.states import RunState, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.event_file import EventFileWriter
from dataward.runs.run_directory import RunDirectory, RunFacts, RunRecord


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
    tail = EventTail(visitor, name, parents_of(workflow))
    with EventFileWriter(record.events) as events:
        events.add_all(await tail.new_events())
        events.add_all(tail.rest())
    for task in logs_of:
        await _bring_logs(visitor, name, record, task)
    await asyncio.to_thread(record.begin, run_facts_of(facts))
    return record


async def _bring_logs(visitor: Visitor, name: str, record: RunRecord, task: TaskId) -> None:
    for node in list(visitor.members):
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
        RunFacts(run.workflow, run.name, run.submitted_at),
        strategy=run.strategy,
        state=run.state,
        makespan_seconds=max(ended - run.submitted_at, 0.0),
        tasks=run.tasks,
        complete=done[TaskState.COMPLETE],
        failed=done[TaskState.FAILED],
        removed=done[TaskState.REMOVED],
        skipped=run.tasks - sum(counts.values()),
    )


async def written_events(visitor: Visitor, name: str, path: Path) -> int:
    """How many events of a run were written to a file, as one list."""
    await visitor.cluster()
    facts = await visitor.run(name)
    with TemporaryDirectory(prefix="dataward-") as directory:
        workflow = await workflow_of(visitor, facts.run, Path(directory))
    tail = EventTail(visitor, name, parents_of(workflow))
    found = [*await tail.new_events(), *tail.rest()]
    with EventFileWriter(path) as events:
        events.add_all(found)
    return len(found)
