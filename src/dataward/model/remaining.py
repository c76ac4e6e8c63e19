"""What remains of a run at one moment, and what the run has measured so far."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataward.model.workflow import Seconds, Workflow


@dataclass(frozen=True, slots=True, eq=False)
class Remaining:
    """Tasks by index. A task that is not open is complete, or will not run.

    ``running`` tasks have been on a core for so many seconds; ``ended`` ones have run, and their
    outputs are being stored. For so many seconds, ``staging`` ones have been bringing their inputs
    in; ``staged`` ones have them and wait for a core. ``measured_seconds`` are those of tasks that
    this run has completed, 0 for all others.
    """

    at_seconds: float  # how long the run has gone on
    is_open: NDArray[np.bool_]
    measured_seconds: Seconds
    running: dict[int, float]
    ended: list[int]
    staging: dict[int, float]
    staged: list[int]


def before_the_run(workflow: Workflow) -> Remaining:
    """All tasks are open, and nothing is measured."""
    return Remaining(
        0.0, np.ones(len(workflow), dtype=bool), np.zeros(len(workflow)), {}, [], {}, []
    )
