"""Shows a run of a cluster while it goes on, and what it came to."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from dataward.cli.complaints import visible
from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import print_json, stderr_console, stdout_console
from dataward.cli.promise_words import promise_as_json, words_about_promise
from dataward.cli.run_view import RunView
from dataward.cli.visiting import visit
from dataward.cluster.event_tail import EventTail
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.mirror import parents_of
from dataward.cluster.results import workflow_of
from dataward.cluster.visitor import ClusterError, ClusterSilentError, Visitor
from dataward.model.quantities import show_seconds
from dataward.model.states import RunState, TaskState
from dataward.reports.progress import RunProgress

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 60.0  # with a cluster that does not answer; it may come back


def watch_to_end(
    access: Path | None, contacts: Sequence[str] | None, name: str, *, json: bool, quiet: bool
) -> None:
    """Watch a run until it has ended, say how, and exit accordingly."""
    try:
        facts = visit(
            access, contacts, lambda visitor: watched(visitor, name, quiet=quiet or json), run=name
        )
    except (KeyboardInterrupt, ClusterSilentError):
        if not json:
            say_it_goes_on(name, access)
        raise
    if json:
        print_json(facts_as_json(facts))
    else:
        stdout_console().print(sentence_about(facts), soft_wrap=True)
    exit_as(facts)


def say_it_goes_on(name: str, access: Path | None) -> None:
    """Say how to watch or end a run that nobody here waits for any more."""
    given = f" --access {visible(access)}" if access else ""
    stderr_console().print(
        f"{visible(name)} goes on in the cluster; watch it with: dataward watch {name}{given}; "
        f"end it with: dataward cancel {name}{given}",
        soft_wrap=True,
    )


def exit_as(facts: RunFactsNow) -> None:
    if facts.run.state is RunState.FAILED:
        raise SystemExit(ExitCode.FAILED)
    if facts.run.state in (RunState.CANCELLED, RunState.PARTIAL):
        raise SystemExit(ExitCode.PARTIAL)


async def watched(visitor: Visitor, name: str, *, quiet: bool) -> RunFactsNow:
    """How the run stands when it has ended. It goes on if nobody watches."""
    await visitor.cluster()
    facts = await _facts_in_patience(visitor, name)
    if quiet:
        while facts.run.state is RunState.RUNNING:
            facts = await _facts_in_patience(visitor, name, wait_seconds=20.0)
        return facts
    with TemporaryDirectory(prefix="dataward-") as directory:
        workflow = await workflow_of(visitor, facts.run, Path(directory))
    progress = RunProgress(workflow)
    view, tail = RunView(progress), EventTail(visitor, name, parents_of(workflow))
    try:
        while True:
            is_over = facts.run.state is not RunState.RUNNING
            for event in await tail.new_events():
                progress.add(event)
            view.refresh(facts.now - facts.run.submitted_at)
            if is_over:
                return facts
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(ClusterError):  # a node that has just gone; the next one answers
                await visitor.cluster()
            facts = await _facts_in_patience(visitor, name)
    finally:
        view.close()


async def _facts_in_patience(visitor: Visitor, name: str, wait_seconds: float = 0.0) -> RunFactsNow:
    """How a run stands; a cluster that does not answer is waited for, and that is said."""
    until, is_told = monotonic() + PATIENCE_SECONDS, False
    while True:
        try:
            return await visitor.run(name, wait_seconds)
        except ClusterSilentError as error:
            if monotonic() > until:
                raise
            if not is_told:
                stderr_console().print(f"waiting: {visible(str(error))}", soft_wrap=True)
            is_told = True
            await asyncio.sleep(LOOK_SECONDS)


def sentence_about(facts: RunFactsNow) -> str:
    run, counts = facts.run, facts.counts
    seconds = (run.ended_at or facts.now) - run.submitted_at
    done = counts.get(TaskState.COMPLETE.value, 0)
    parts = [f"{done:,} of {run.tasks:,} tasks complete"]
    if run.skipped:
        parts.append(f"{run.skipped:,} known already")
    states = [TaskState.FAILED, TaskState.REMOVED]
    if run.state is RunState.RUNNING:  # what was cancelled stays as it was in the store
        states.append(TaskState.RUNNING)
    for state in states:
        if counts.get(state.value):
            parts.append(f"{counts[state.value]:,} {state.value}")
    promise = words_about_promise(run, facts.now)
    if promise:
        parts.append(promise)
    time = f"{'in' if run.ended_at else 'for'} {show_seconds(max(seconds, 0.0))}"
    return f"{visible(run.name)}: {run.state.value} {time}, {', '.join(parts)}"


def facts_as_json(facts: RunFactsNow) -> dict[str, Any]:
    run = facts.run
    return {
        "run": run.name,
        "workflow": run.workflow,
        "strategy": run.strategy,
        "state": run.state.value,
        "tasks": run.tasks,
        "counts": facts.counts,
        "skipped": run.skipped,
        "submitter": run.submitter,
        "keepers": list(run.keepers),
        "seconds": (run.ended_at or facts.now) - run.submitted_at,
        "promise": promise_as_json(run),
    }
