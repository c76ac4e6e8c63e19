"""``dataward runs``: lists the runs recorded in a directory and their outcomes."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from dataward.cli.output import (
    encodable,
    plain_table,
    print_json,
    print_table,
    shortened,
    stderr_console,
    stdout_console,
    visible,
)
from dataward.cli.recorded import events_of, facts_of, looking_into
from dataward.errors import FormatError
from dataward.model.quantities import show_seconds
from dataward.reports.outcome_counts import OutcomeCounts, count_outcomes
from dataward.runs.run_directory import RunFacts, RunRecord, RunState, runs_below


@dataclass(frozen=True, slots=True)
class _Row:
    run: RunRecord
    facts: RunFacts
    state: RunState
    counts: OutcomeCounts


def runs_command(
    directory: Annotated[
        Path, typer.Argument(help="A run directory, or a directory that holds some.")
    ] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
) -> None:
    """List past runs and the one under way: when, how far they came, how long they took.

    The state `killed` means that the run's process is gone; `dataward run --resume` continues it.

    Examples:

    - `dataward runs`
    - `dataward runs montage.run --json`
    """
    with looking_into(str(directory)):
        if not directory.is_dir():
            raise FormatError(str(directory), "there is no such directory")
        rows = [_row(run, facts) for run in runs_below(directory) if (facts := facts_of(run))]
    if json:
        print_json([_as_json(row) for row in rows])
    elif rows:
        _print(rows)
    else:
        said = f"no runs in {visible(directory)}; 'dataward run FILE' makes one"
        stderr_console().print(said, soft_wrap=True)


def _row(run: RunRecord, facts: RunFacts) -> _Row:
    if facts.state is not RunState.RUNNING:
        counts = OutcomeCounts(facts.complete, facts.skipped, facts.failed, facts.makespan_seconds)
        return _Row(run, facts, facts.state, counts)
    return _Row(
        run, facts, facts.state if run.is_under_way() else RunState.KILLED, _counts_so_far(run)
    )


def _counts_so_far(run: RunRecord) -> OutcomeCounts:
    """The counts so far of a run that has not ended; all 0 if its events cannot be read."""
    try:
        return count_outcomes(events_of(run))
    except FormatError as error:
        stderr_console().print(f"warning: {visible(str(error))}", soft_wrap=True)
        return OutcomeCounts(0, 0, 0, 0.0)


def _as_json(row: _Row) -> dict[str, Any]:
    return {
        "run": encodable(row.run.path),
        "workflow": row.facts.workflow,
        "began": row.facts.began,
        "state": row.state.value,
        "tasks": row.facts.tasks,
        "complete": row.counts.complete,
        "skipped": row.counts.skipped,
        "failed": row.counts.failed,
        "makespan_seconds": row.counts.seconds,
        "source": row.facts.source,
        "starts": row.facts.starts,
        "strategy": row.facts.strategy,
        "nodes": row.facts.nodes,
        "slots": row.facts.slots,
    }


def _print(rows: list[_Row]) -> None:
    table = plain_table(
        "run", "workflow", "when", "state", "tasks", "complete", "skipped", "failed", "makespan"
    )
    for row in rows:
        table.add_row(
            shortened(visible(row.run.path)),
            shortened(visible(row.facts.workflow)),
            local_time(row.facts.began),
            visible(row.state.value),
            f"{row.facts.tasks:,}",
            f"{row.counts.complete:,}",
            f"{row.counts.skipped:,}",
            f"{row.counts.failed:,}",
            show_seconds(row.counts.seconds),
        )
    print_table(stdout_console(), table)


def local_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # not a time that dataward wrote
        return "?"
