"""Measures the cells of experiments on all cores, keeping each as soon as it is there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dataward.api.all_cores import called_on_all_cores
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, Study, without_repeats
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.kept_cells import CellFile, CellKey, key_of


@dataclass(frozen=True, slots=True)
class CellJob:
    """One cell to be measured in another process."""

    key: CellKey
    measure: Callable[[CellValues], Numbers]
    cell: Cell


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The numbers of a cell; or, if ``problem`` is not empty, why there are none."""

    numbers: Numbers = field(default_factory=dict)
    seconds: float = 0.0  # of processor time: what others do on the machine does not count
    problem: str = ""


OnCell = Callable[[CellJob, CellOutcome], None]


def jobs_of(experiments: Sequence[Experiment], *, quick: bool) -> list[CellJob]:
    """What must be measured; a cell that several experiments share is there once."""
    jobs = {}
    for experiment in experiments:
        for cell in without_repeats(experiment.cells(quick)):
            key = key_of(experiment.study, cell)
            jobs[key] = CellJob(key, experiment.study.measure, cell)
    return list(jobs.values())


def sweep(jobs: Sequence[CellJob], kept: CellFile, on_cell: OnCell) -> dict[CellKey, str]:
    """Measure what is not kept yet, heavy cells first. Returns the problems of cells that failed.

    ``on_cell`` is told of every cell, those kept before first.
    """
    to_do, problems = [], {}
    for job in jobs:
        numbers = kept.get(job.key)
        if numbers is None:
            to_do.append(job)
        else:
            on_cell(job, CellOutcome(numbers))
    to_do.sort(key=lambda job: -job.cell.weight)
    for job, outcome in called_on_all_cores(measured, to_do):
        if outcome.problem:
            problems[job.key] = outcome.problem
        else:
            kept.add(job.key, outcome.numbers, outcome.seconds)
        on_cell(job, outcome)
    return problems


def measured(job: CellJob) -> CellOutcome:
    """The outcome of one cell. Errors travel as text: not every exception can be pickled."""
    began = time.process_time()
    try:
        numbers = job.measure(job.cell.as_dict())
    except Exception as error:
        return CellOutcome(problem=f"{type(error).__name__}: {error}")
    return CellOutcome(numbers, time.process_time() - began)


def results_of(study: Study, cells: Sequence[Cell], kept: CellFile) -> Results:
    """The numbers of cells that have all been measured."""
    found: dict[Cell, Numbers] = {}
    for cell in without_repeats(cells):
        numbers = kept.get(key_of(study, cell))
        assert numbers is not None, f"{study.name} has not measured {cell.values}"
        found[cell] = numbers
    return Results(found)
