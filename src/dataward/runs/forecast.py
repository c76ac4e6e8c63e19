"""What a run would do, without doing any of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dataward.live.slice import Slice
from dataward.model.workflow import TaskId, Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.end_forecast import EndForecast
from dataward.runs.end_forecasts import forecast_before
from dataward.runs.known_times import estimated_from, measured_seconds
from dataward.runs.preparation import Preparer, remaining_workflow
from dataward.runs.run_directory import RunDirectory
from dataward.runs.workflow_run import peek_at_outcomes


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would run, and for how long at least, as far as run times are known.

    ``due`` tasks run, each for a reason; ``perhaps`` ones only if what they read turns out
    different, or what they wrote is needed and gone.
    """

    due: Mapping[TaskId, str]
    perhaps: tuple[TaskId, ...]
    skipped: int
    seconds_min: float  # if only what is due runs
    seconds_max: float  # if all runs that may
    untimed: int  # how many of those have neither run before nor a declared run time
    end: EndForecast | None  # None if too little is known to say


def foresee(
    workflow: Workflow, preparer: Preparer, directory: RunDirectory, machine: Slice
) -> Forecast:
    outcomes = peek_at_outcomes(directory) if directory.exists() else {}
    decision = preparer.foresee(outcomes)
    ids = workflow.task_ids
    measured = measured_seconds(workflow, outcomes)
    seconds = np.where(measured > 0, measured, workflow.runtime_seconds)
    timed = replace(workflow, runtime_seconds=seconds)
    known = estimated_from(workflow, outcomes)
    return Forecast(
        due={ids[task]: why for task, why in decision.due.items()},
        perhaps=tuple(ids[task] for task in decision.perhaps),
        skipped=len(decision.skip),
        seconds_min=_seconds(timed, list(decision.due), machine),
        seconds_max=_seconds(timed, decision.open, machine),
        untimed=sum(not timed.runtime_seconds[task] for task in decision.open),
        end=forecast_before(known, list(decision.due), list(decision.perhaps), machine),
    )


def _seconds(workflow: Workflow, tasks: list[int], machine: Slice) -> float:
    part = remaining_workflow(workflow, tasks, {})
    if part is None:
        return 0.0
    return makespan_bounds(
        part,
        nodes=machine.nodes,
        cores=machine.slots,
        bandwidth_bytes_per_second=float("inf"),
    ).best_seconds
