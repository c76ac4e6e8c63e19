"""Reads the workflows of ``dataward deadlines``, and prints what came of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataward.cli.output import print_warnings, reading_file, stdout_console
from dataward.cli.tables import print_table
from dataward.deadlines.frames import Outline, outline_of
from dataward.errors import FormatError
from dataward.formats import read_workflow
from dataward.generate import generate
from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.workflow import Workflow
from dataward.sim.deadline_gauges import DeadlineGauges
from dataward.sim.deadline_world import DeadlineSettings

TASK_SECONDS = 300.0
PAPERS = (("fork-join", 10), ("laplace", 9))


def outlines_from(files: Sequence[Path]) -> dict[str, Outline]:
    """The workflows by name: those of the files, or else the paper's two. Raises FormatError."""
    if not files:
        return {name: outline_of(generate(name, tasks, seconds=TASK_SECONDS))
                for name, tasks in PAPERS}  # fmt: skip
    found = {}
    for file in files:
        with reading_file(file):
            workflow = read_workflow(file)
        print_warnings(workflow, file)
        _check(file, workflow)
        found[str(file)] = outline_of(workflow)
    return found


def _check(file: Path, workflow: Workflow) -> None:
    if not workflow.runtime_seconds.min() > 0:
        raise FormatError(str(file), "some tasks have no run time, so nothing can be promised")
    if workflow.cores.max() > 1:
        raise FormatError(str(file), "a task needs several cores; simulated nodes have one each")


def as_json(
    named: Mapping[str, Outline], settings: DeadlineSettings, gauges: DeadlineGauges
) -> dict[str, Any]:
    """The results for programs."""
    return {
        "nodes": settings.nodes,
        "priority": settings.priority,
        "load": settings.load,
        "seed": settings.seed,
        "simulated_seconds": gauges.seconds,
        "workflows": [
            {"workflow": name, "width": outline.width, **_of_kind(gauges, kind)}
            for kind, (name, outline) in enumerate(named.items())
        ],
        "requests": gauges.requests,
        "hops_mean": _mean(gauges.hops),
        "cut_in_two": gauges.cuts,
        "came_down_in_vain": gauges.falls,
        "updates": gauges.updates,
        "events_per_second_mean": float(gauges.events.total.mean() / max(gauges.seconds, 1.0)),
        "events_per_second_max": float(gauges.events.peak.max()),
        "sent_peak_bytes_per_second": _peaks(gauges.sent.peak),
        "received_peak_bytes_per_second": _peaks(gauges.received.peak),
    }


def _of_kind(gauges: DeadlineGauges, kind: int) -> dict[str, Any]:
    every = [times for times in gauges.workflows if times.kind == kind]
    allocation, ended = gauges.allocation_seconds(kind), gauges.ended(kind)
    return {
        "submitted": len(every),
        "accepted": len(allocation),
        "refused": sum(times.is_refused for times in every),
        "ended": len(ended),
        "late": sum(times.is_late for times in ended),
        "allocation_seconds_median": _percentile(allocation, 50),
        "allocation_seconds_95": _percentile(allocation, 95),
        "speed_up_mean": _mean([times.speed_up for times in ended]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _peaks(peak: Any) -> dict[str, float]:
    return {"75": float(np.percentile(peak, 75)), "99": float(np.percentile(peak, 99)),
            "max": float(peak.max())}  # fmt: skip


def print_report(
    named: Mapping[str, Outline], settings: DeadlineSettings, gauges: DeadlineGauges
) -> None:
    told = as_json(named, settings, gauges)
    console = stdout_console()
    console.print(
        f"{settings.nodes:,} nodes, {show_seconds(gauges.seconds)} simulated; priority "
        f"{settings.priority:g}, load {settings.load:g}, seed {settings.seed}",
        style="bold",
        soft_wrap=True,
    )
    rows = []
    for each in told["workflows"]:
        median, slow = each["allocation_seconds_median"], each["allocation_seconds_95"]
        speed_up = each["speed_up_mean"]
        rows.append(
            (
                each["workflow"], f"{each['width']}", f"{each['submitted']:,}",
                f"{each['accepted']:,}", f"{each['refused']:,}", f"{each['ended']:,}",
                f"{each['late']:,}",
                "–" if median is None else show_seconds(median),
                "–" if slow is None else show_seconds(slow),
                "–" if speed_up is None else f"{speed_up:.2f}",
            )
        )  # fmt: skip
    print_table(
        ("workflow", "width", "submitted", "accepted", "refused", "ended", "late", "allocated in",
         "95% within", "speed-up"),
        rows,
        spare=("width", "95% within"),
    )  # fmt: skip
    sent, received = (told[f"{way}_peak_bytes_per_second"] for way in ("sent", "received"))
    console.print(
        f"A node handles {told['events_per_second_mean']:.3g} events a second on average and "
        f"{told['events_per_second_max']:.0f} at most; 75% of nodes never send more than "
        f"{show_bytes(sent['75'])} in a second ({show_bytes(sent['max'])} at most) nor receive "
        f"more than {show_bytes(received['75'])} ({show_bytes(received['max'])} at most).",
        soft_wrap=True,
    )
