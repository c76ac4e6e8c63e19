"""Prints the description of a workflow, for people or as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console

from dataward.cli.complaints import visible
from dataward.cli.output import counted, padded, shortened
from dataward.cli.tables import print_table
from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.workflow import Workflow
from dataward.plan.bounds import Bounds
from dataward.plan.summary import Summary
from dataward.reports.profile import bar, profile_rows

TYPES_SHOWN = 12
PATH_SHOWN = 12


def summary_as_json(workflow: Workflow, summary: Summary, bounds: Bounds) -> dict[str, Any]:
    """The result for programs: first the keys that other programs rely on, then the rest."""
    path = summary.critical_path
    return {
        "tasks": summary.tasks,
        "files": summary.files,
        "edges": summary.edges,
        "depth": summary.depth,
        "width": summary.width,
        "total_runtime_seconds": summary.total_runtime_seconds,
        "total_bytes": summary.total_bytes,
        "critical_path_seconds": path.seconds,
        "lower_bound_seconds": bounds.best_seconds,
        "name": workflow.name,
        "read_bytes": summary.read_bytes,
        "written_bytes": summary.written_bytes,
        "critical_path": [workflow.task_ids[t] for t in path.tasks.tolist()],
        "bounds": bounds,
        "types": summary.types,
        "warnings": workflow.warnings,
    }


def print_numbers(console: Console, workflow: Workflow, summary: Summary, file: Path) -> None:
    heading = f"{shortened(workflow.name)}  ({visible(file)})"
    console.print(heading, style="bold", soft_wrap=True)
    rows = [
        ("tasks", f"{summary.tasks:,} of {counted(len(summary.types), 'type')}"),
        ("files", f"{summary.files:,}, {show_bytes(summary.total_bytes)}"),
        ("edges", f"{summary.edges:,}"),
        ("levels", f"{summary.depth:,}, at most {counted(summary.width, 'task')} wide"),
        ("work", f"{show_seconds(summary.total_runtime_seconds)} on one core"),
        (
            "traffic",
            f"{show_bytes(summary.read_bytes)} read, {show_bytes(summary.written_bytes)} written",
        ),
    ]
    for name, value in rows:
        console.print(f"  {name:<8} {value}", soft_wrap=True)


def print_profile(console: Console, workflow: Workflow) -> None:
    rows = profile_rows(workflow)
    merged = rows[0].last_level > rows[0].first_level
    console.print(f"\nTasks per level{' (averages over several)' if merged else ''}", style="bold")
    largest = max(row.tasks for row in rows)
    labels = [
        f"{row.first_level}-{row.last_level}" if merged else f"{row.first_level}" for row in rows
    ]
    label_width = max(map(len, labels))
    names = max(cell_len(row.types) for row in rows)
    room = max(console.width - label_width - 14, 12)
    names = min(names, room // 2, 28)
    width = max(min(room - names, 60), 6)
    plain = not (console.encoding or "").lower().startswith("utf")
    for label, row in zip(labels, rows, strict=True):
        count = (
            f"{row.tasks:,.0f}"
            if row.tasks >= 10 or row.tasks == int(row.tasks)
            else f"{row.tasks:.1f}"
        )
        drawn = bar(row.tasks, largest, width, plain=plain)
        kinds = padded(shortened(row.types, names), names)
        console.print(f"  {label:>{label_width}} {kinds} {drawn} {count}", soft_wrap=True)


def print_types(console: Console, summary: Summary) -> None:
    console.print()
    whole = summary.total_runtime_seconds or 1.0
    rows = [
        (
            shortened(kind.name),
            f"{kind.tasks:,}",
            show_seconds(kind.runtime_seconds_mean),
            f"{kind.runtime_seconds_total / whole:.1%}",
            show_bytes(kind.read_bytes_mean),
            show_bytes(kind.written_bytes_mean),
        )
        for kind in summary.types[:TYPES_SHOWN]
    ]
    headings = ("Task type", "count", "mean time", "share", "reads", "writes")
    print_table(headings, rows, spare=("share", "writes", "reads"))
    if len(summary.types) > TYPES_SHOWN:
        more = counted(len(summary.types) - TYPES_SHOWN, "more type")
        console.print(f"and {more} (--json lists all)", soft_wrap=True)


def print_path(console: Console, workflow: Workflow, summary: Summary) -> None:
    tasks = summary.critical_path.tasks.tolist()
    length = show_seconds(summary.critical_path.seconds)
    console.print(
        f"\nCritical path: {length} in {counted(len(tasks), 'task')}", style="bold", soft_wrap=True
    )
    shown = tasks if len(tasks) <= PATH_SHOWN else [*tasks[: PATH_SHOWN - 2], -1, tasks[-1]]
    for line in _lines([_step(workflow, t) if t >= 0 else "..." for t in shown], console.width - 2):
        console.print(f"  {line}", soft_wrap=True)


def _step(workflow: Workflow, task: int) -> str:
    id, name = workflow.task_ids[task], workflow.task_names[task]
    return shortened(id) if id == name else f"{shortened(name)} {shortened(id)}"


def _lines(steps: Sequence[str], cells: int) -> list[str]:
    """The steps joined by arrows, in lines that break only after an arrow."""
    lines = [steps[0]]
    for step in steps[1:]:
        if cell_len(f"{lines[-1]} -> {step} ->") <= cells:
            lines[-1] += f" -> {step}"
        else:
            lines[-1] += " ->"
            lines.append(step)
    return lines


def print_bounds(console: Console, bounds: Bounds, machine: str, edge: str | None) -> None:
    heading = f"\nNo schedule can be faster than this ({machine})"
    console.print(heading, style="bold", soft_wrap=True)
    where = f"inputs leave a server at {edge}" if edge else "inputs are on the nodes already"
    rows = [
        ("critical path", bounds.critical_path_seconds, "however many nodes there are"),
        ("work area", bounds.work_area_seconds, "all cores busy all the time"),
        ("head, area, tail", bounds.head_area_tail_seconds, "busy between first and last tasks"),
        ("compulsory data", bounds.compulsory_data_seconds, where),
    ]
    for name, seconds, meaning in rows:
        mark = "*" if name == bounds.which else " "
        line = f" {mark} {name:<16} {show_seconds(seconds):>12}"
        beside = len(line) + 3 + len(meaning) <= console.width
        line += f"   {meaning}" if beside else f"\n     {meaning}"
        console.print(line, soft_wrap=True)
