"""What is thought of a task's run time, and how sure that is."""

from math import inf
from typing import NamedTuple

UNKNOWN_SECONDS = 1.0  # what a task counts as if nothing is known of it; never 0


class Estimate(NamedTuple):
    """``spread`` is the sigma of a lognormal error: 0 if certain, infinite if a mere guess."""

    seconds: float
    spread: float


GUESS = Estimate(UNKNOWN_SECONDS, inf)


def estimate_of(seconds: float, spread: float) -> Estimate:
    """The estimate that was given for a task; a run time of 0 says that none was."""
    return Estimate(seconds, spread) if seconds > 0 else GUESS
