"""What is known of run times and sizes before a workflow runs: estimates, which may be wrong.

Plans and nodes see a workflow with estimates; only the world knows the truth. A run time or a size
of 0 means that it is not known: that is what files without run times say, a sum needs no exception
for it, and nothing that runs takes no time at all.
"""

from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.errors import SettingError
from dataward.model.builder import RUNTIME_SECONDS_MAX, SIZE_BYTES_MAX
from dataward.model.estimate import UNKNOWN_SECONDS
from dataward.model.seeds import seeded
from dataward.model.workflow import Bytes, Seconds, Workflow

SIGMA_MAX = 10.0  # a factor of 22,000 for every third task: worse is as good as unknown
_RESOLUTION_SECONDS = 1e-6  # logarithms differ in the last bit from machine to machine


@dataclass(frozen=True, slots=True)
class Estimates:
    """How well run times, and the sizes of what tasks write, are known before the tasks have run.

    ``sigma`` is that of a lognormal error: 0 if they are known exactly, infinite if not at all.
    """

    sigma: float = 0.0

    def __str__(self) -> str:
        return {0.0: "exact", inf: "unknown"}.get(self.sigma, f"{self.sigma:g}")


EXACT = Estimates(0.0)
UNKNOWN = Estimates(inf)


def parse_estimates(text: str) -> Estimates:
    """The estimates meant by ``exact``, ``unknown`` or a sigma such as ``0.5``."""
    for known in (EXACT, UNKNOWN):
        if text.strip() == str(known):
            return known
    try:
        sigma = float(text)
    except ValueError:
        sigma = -1.0
    if not (isfinite(sigma) and 0.0 <= sigma <= SIGMA_MAX):
        raise SettingError(
            f"{text!r} says not how good estimates are: give exact, unknown, or the sigma of a "
            f"lognormal error from 0 to {SIGMA_MAX:g}, such as 0.5"
        )
    return Estimates(sigma)


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """A workflow as it is known before it runs: run times and sizes are estimates, or 0.

    ``spread`` says how good each task's run time is: the sigma of a lognormal error, 0 if the run
    time is certain, infinite if it is not known. ``common`` is the sigma of a further error that
    tasks have in common, all or those of a type, as a share of their spread: an author's machine
    was another, or this one was busy.
    """

    workflow: Workflow
    spread: Seconds
    common: float = 0.0

    def for_planning(self) -> Workflow:
        """The workflow with a guess wherever nothing is known; as it is if everything is certain.

        A run time is guessed as the mean of its type; if that has none, as the mean of all; if no
        run time is known, all tasks take equally long, so that depth decides. A size counts as one
        byte: of nodes that are free at the same time the one that has a file is better, but no task
        waits for that node. With the mean of all sizes, ADAGE took up to 1.4 times as long where
        inputs are larger than what tasks write.
        """
        if not self.spread.any():
            return self.workflow
        return replace(
            self.workflow,
            runtime_seconds=guessed_seconds(self.workflow),
            size_bytes=_guessed_sizes(self.workflow),
        )


def as_estimated(workflow: Workflow, estimates: Estimates, seed: int) -> Estimated:
    """What is known beforehand of a workflow whose true run times and sizes are given.

    Errors are drawn from the seed, for each task and each file that a task writes; inputs of the
    workflow are at hand, so their sizes are known. An error is a factor whose median is 1: twice
    too long is as likely as twice too short. Its mean is above 1, so that all tasks together seem
    to take longer than they do; a plan does not mind, since it only compares. With a mean of 1
    most estimates would be too short, at sigma 1 by 40 percent.
    """
    spread = np.full(len(workflow), estimates.sigma)
    if estimates == EXACT:
        return Estimated(workflow, spread)
    if estimates == UNKNOWN:
        factors = np.zeros(len(workflow) + len(workflow.file_ids))
    else:
        random = RandomState(seeded(seed, "estimates").getrandbits(32))
        errors = random.standard_normal(len(workflow) + len(workflow.file_ids))
        factors = np.exp(estimates.sigma * errors)
    seconds = _scaled_seconds(workflow.runtime_seconds, factors[: len(workflow)])
    spread[seconds == 0] = inf
    sizes = _scaled_sizes(workflow.size_bytes, factors[len(workflow) :])
    sizes = np.where(_are_made(workflow), sizes, workflow.size_bytes)
    return Estimated(replace(workflow, runtime_seconds=seconds, size_bytes=sizes), spread)


def _scaled_seconds(seconds: Seconds, factors: Seconds) -> Seconds:
    """Run times with errors; one that is known stays above 0."""
    scaled = np.round(seconds * factors, 6)
    least = np.where((seconds > 0) & (factors > 0), _RESOLUTION_SECONDS, 0.0)
    found: Seconds = np.clip(scaled, least, RUNTIME_SECONDS_MAX)
    return found


def _scaled_sizes(sizes: Bytes, factors: Seconds) -> Bytes:
    scaled = np.minimum(np.rint(sizes * factors), SIZE_BYTES_MAX)
    least = (sizes > 0) & (factors > 0)
    found: Bytes = np.maximum(scaled, least).astype(sizes.dtype)
    return found


def guessed_seconds(workflow: Workflow) -> Seconds:
    """Run times with a guess in place of those that are 0: the mean of the type, or of all."""
    seconds, types, kinds = workflow.runtime_seconds, workflow.types, len(workflow.type_names)
    known = seconds > 0
    if known.all():
        return seconds
    counts = np.bincount(types[known], minlength=kinds)
    sums = np.bincount(types[known], weights=seconds[known], minlength=kinds)
    mean = float(seconds[known].mean()) if known.any() else UNKNOWN_SECONDS
    by_type = np.where(counts > 0, sums / np.maximum(counts, 1), mean)
    found: Seconds = np.where(known, seconds, by_type[types])
    return found


def _guessed_sizes(workflow: Workflow) -> Bytes:
    sizes = workflow.size_bytes
    found: Bytes = np.where(_are_made(workflow), np.maximum(sizes, 1), sizes)
    return found


def _are_made(workflow: Workflow) -> NDArray[np.bool_]:
    """Which files tasks write; the others are inputs of the workflow."""
    made: NDArray[np.bool_] = workflow.producers.degrees() > 0
    return made
