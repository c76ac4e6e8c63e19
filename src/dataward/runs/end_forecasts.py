"""Forecasts the end of a run on this machine: before it begins, and while it goes on."""

from dataclasses import dataclass, replace

import numpy as np

from dataward.live.slice import Slice
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Workflow
from dataward.plan.end_forecast import EndForecast, either, forecast_end
from dataward.plan.estimates import Estimated
from dataward.plan.list_schedule import Resources
from dataward.reports.progress import RunProgress
from dataward.runs.known_times import Outcomes, estimated_from

# Measured over runs of Montage with tasks of 0.2 s: between a command's own time and that for which
# it keeps its slot, and from its end until its outputs are committed.
OVERHEAD_SECONDS = 0.003
PAUSE_SECONDS = 0.025


def resources_of_slice(machine: Slice) -> Resources:
    return Resources(
        machine.nodes,
        machine.nodes * machine.slots,
        overhead_seconds=OVERHEAD_SECONDS,
        pause_seconds=PAUSE_SECONDS,
    )


def forecast_before(
    known: Estimated, due: list[int], perhaps: list[int], machine: Slice
) -> EndForecast | None:
    """How long a run takes in which tasks are due, and others perhaps; by index.

    None if too little is known to say.
    """
    without = _forecast_of(known, due, machine)
    if not perhaps:
        return without
    whole = _forecast_of(known, [*due, *perhaps], machine)
    return None if without is None or whole is None else either(without, whole)


def _forecast_of(known: Estimated, tasks: list[int], machine: Slice) -> EndForecast | None:
    is_open = np.zeros(len(known.workflow), dtype=bool)
    is_open[tasks] = True
    remaining = replace(before_the_run(known.workflow), is_open=is_open)
    return forecast_end(known, remaining, resources_of_slice(machine))


@dataclass(frozen=True, slots=True)
class EndForecaster:
    """Forecasts the end of one run from what is known beforehand and what it has measured."""

    known: Estimated
    machine: Slice
    progress: RunProgress

    def left(self, now: float) -> EndForecast | None:
        """How long the run still takes; None if too little is known to say."""
        resources = resources_of_slice(self.machine)
        return forecast_end(self.known, self.progress.remaining(now), resources)


def forecaster_of(
    workflow: Workflow, outcomes: Outcomes, machine: Slice, progress: RunProgress
) -> EndForecaster:
    return EndForecaster(estimated_from(workflow, outcomes), machine, progress)
