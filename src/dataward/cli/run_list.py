"""Prints the runs recorded in a directory, for people or as JSON."""

import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dataward.cli.complaints import visible
from dataward.cli.output import (
    encodable,
    shortened,
    stderr_console,
)
from dataward.cli.recorded import events_of
from dataward.cli.tables import print_table
from dataward.errors import FormatError
from dataward.model.quantities import show_seconds
from dataward.model.states import RunState
from dataward.reports.outcome_counts import OutcomeCounts, count_outcomes
from dataward.runs.run_directory import RunFacts, RunRecord


@dataclass(frozen=True, slots=True)
class RunRow:
    run: RunRecord
    facts: RunFacts
    state: RunState
    counts: OutcomeCounts


def row_of(run: RunRecord, facts: RunFacts) -> RunRow:
    if facts.state is not RunState.RUNNING:
        counts = OutcomeCounts(
            facts.complete, facts.skipped, facts.failed, facts.makespan_seconds, facts.removed
        )
        return RunRow(run, facts, facts.state, counts)
    counts = _counts_so_far(run)
    if not run.is_under_way():
        return RunRow(run, facts, RunState.KILLED, counts)
    # The last event of a run whose tasks take long may be hours old.
    seconds = max(counts.seconds, facts.clock_seconds(time.time()))
    return RunRow(run, facts, RunState.RUNNING, replace(counts, seconds=seconds))


def _counts_so_far(run: RunRecord) -> OutcomeCounts:
    """The counts so far of a run that has not ended; all 0 if its events cannot be read."""
    try:
        return count_outcomes(events_of(run))
    except FormatError as error:
        stderr_console().print(f"warning: {visible(str(error))}", soft_wrap=True)
        return OutcomeCounts(0, 0, 0, 0.0)


def row_as_json(row: RunRow) -> dict[str, Any]:
    return {
        "run": encodable(row.run.path),
        "workflow": row.facts.workflow,
        "began": row.facts.began,
        "state": row.state.value,
        "tasks": row.facts.tasks,
        "complete": row.counts.complete,
        "skipped": row.counts.skipped,
        "failed": row.counts.failed,
        "removed": row.counts.removed,
        "makespan_seconds": row.counts.seconds,
        "source": row.facts.source,
        "starts": row.facts.starts,
        "strategy": row.facts.strategy,
        "nodes": row.facts.nodes,
        "slots": row.facts.slots,
    }


def print_rows(rows: list[RunRow]) -> None:
    has_removed = any(row.counts.removed for row in rows)
    headings = (
        "run", "workflow", "when", "state", "tasks", "complete", "skipped", "failed",
        *(["removed"] if has_removed else []), "makespan",
    )  # fmt: skip
    cells = [
        (
            shortened(visible(row.run.path)),
            shortened(visible(row.facts.workflow)),
            local_time(row.facts.began),
            visible(row.state.value),
            f"{row.facts.tasks:,}",
            f"{row.counts.complete:,}",
            f"{row.counts.skipped:,}",
            f"{row.counts.failed:,}",
            *([f"{row.counts.removed:,}"] if has_removed else []),
            show_seconds(row.counts.seconds),
        )
        for row in rows
    ]
    spare = ("workflow", "when", "tasks", "makespan", "skipped", "complete", "removed")
    print_table(headings, cells, spare=spare)


def local_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # not a time that dataward wrote
        return "?"
