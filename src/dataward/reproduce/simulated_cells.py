"""Measures a cell by simulating it: a workflow, a platform, a strategy and a seed."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dataward.api.simulate import simulated
from dataward.errors import OwnFaultError
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.estimates import EXACT
from dataward.reports.run_summary import RunSummary
from dataward.reproduce.cells import CellValues, Numbers, Study
from dataward.reproduce.gauges import Gauges
from dataward.strategies.choosing import chosen_strategy, settings_of

REVISION = 1  # raised when the simulator or a study has changed so that old numbers do not count

Recipe = partial[Workflow]


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything about one simulated run."""

    workflow: Recipe
    platform: Platform
    strategy: str
    settings: Sequence[str] = ()
    faults: str = "none"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that has been simulated."""

    workflow: Workflow
    platform: Platform
    summary: RunSummary
    gauges: Gauges

    @property
    def tasks_per_second(self) -> float:
        return len(self.workflow) / self.summary.makespan_seconds

    @property
    def busy_profile(self) -> list[float]:
        return self.gauges.busy_profile(self.platform.cores, self.summary.makespan_seconds)


def simulation_study(
    name: str,
    set_up: Callable[[CellValues], Setup],
    read_off: Callable[[CellValues, Measured], Numbers],
    strategy: Callable[[CellValues], str],
) -> Study:
    """A study whose cells are set up by one function and read off by another."""
    measure = partial(_measure, set_up, read_off)
    return Study(name, measure, partial(_described, set_up), strategy)


def _measure(
    set_up: Callable[[CellValues], Setup],
    read_off: Callable[[CellValues, Measured], Numbers],
    values: CellValues,
) -> Numbers:
    numbers = read_off(values, run_once(set_up(values)))
    gc.collect()  # the simulation is full of cycles, and the next one needs the memory
    return numbers


def run_once(setup: Setup) -> Measured:
    workflow, gauges = setup.workflow(), Gauges()
    report = simulated(
        workflow,
        setup.platform,
        chosen_strategy(setup.strategy, list(setup.settings)),
        seed=setup.seed,
        faults=setup.faults,
        retries=0,
        estimates=EXACT,
        sinks=[gauges.add],
    )
    if not report.is_complete:
        raise OwnFaultError(f"{workflow.name} did not complete under {setup.strategy}")
    return Measured(workflow, setup.platform, report.summary, gauges)


def _described(set_up: Callable[[CellValues], Setup], values: CellValues) -> str:
    """All that the run depends on, as text; the strategy must exist."""
    setup = set_up(values)
    strategy = chosen_strategy(setup.strategy, list(setup.settings))
    recipe = setup.workflow
    made_by = f"{recipe.func.__module__}.{recipe.func.__qualname__}"
    arguments = (*recipe.args, *sorted(recipe.keywords.items()))
    return repr(
        (
            REVISION, made_by, arguments, setup.platform, strategy.name, setup.settings,
            settings_of(strategy), setup.faults, setup.seed,
        )
    )  # fmt: skip
