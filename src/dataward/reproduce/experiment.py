"""An experiment of a paper: cells to measure, charts to draw, claims to judge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataward.reproduce.cells import Cell, Results, Study
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import PaperClaim
from dataward.strategies.registry import STRATEGIES


@dataclass(frozen=True, slots=True)
class Experiment:
    """``about`` says how the paper set it up, and what had to be assumed or cut."""

    name: str
    title: str
    about: str
    study: Study
    cells: Callable[[bool], Sequence[Cell]]  # of the quick version, or of the full one
    charts: Callable[[Results], Sequence[Chart]]
    claims: Sequence[PaperClaim]

    @property
    def paper(self) -> str:
        return self.name.partition("-")[0]


def missing_strategies(experiment: Experiment, *, quick: bool) -> list[str]:
    """The strategies that the experiment needs and that do not exist, in order of first need."""
    needed = (experiment.study.strategy(c.as_dict()) for c in experiment.cells(quick))
    return [name for name in dict.fromkeys(needed) if name and name not in STRATEGIES]
