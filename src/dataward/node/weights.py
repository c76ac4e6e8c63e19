"""The worker-centric paper's weights of tasks for a node that asks, and its draw (section 3)."""

from collections.abc import Sequence
from enum import Enum
from random import Random

import numpy as np
from numpy.typing import NDArray

from dataward.node.overlaps import Comparison

Weights = NDArray[np.float64]
CLOSED = -1.0  # the weight of a place without a task


class Metric(Enum):
    """What makes a task good for a node; section 3.2."""

    OVERLAP = "overlap"  # the number of its files that the node has
    REST = "rest"  # the inverse of the number that the node lacks
    COMBINED = "combined"  # REST, and how often earlier tasks there read what the node has


def weights_of(metric: Metric, tasks: Comparison) -> Weights:
    """The weight of each place: the larger, the better its task.

    A task of which the node lacks nothing divides REST by zero: it is the best there can be. The
    paper prints COMBINED with totalRest / rest, which would prefer tasks with more transfers; its
    text asks for fewer, so here it is rest / totalRest. A sum of 0 divides nothing: its share is 0.
    """
    if metric is Metric.OVERLAP:
        weights = tasks.overlap.astype(np.float64)
    else:
        weights = rests(tasks)
        if metric is Metric.COMBINED:
            weights = np.where(
                np.isinf(weights), np.inf, shares(weights, tasks.open) + references(tasks)
            )
    return np.where(tasks.open, weights, CLOSED)


def rests(tasks: Comparison) -> Weights:
    with np.errstate(divide="ignore"):
        return 1.0 / (tasks.needed - tasks.overlap)


def references(tasks: Comparison) -> Weights:
    return shares(tasks.references.astype(np.float64), tasks.open)


def shares(values: Weights, of: NDArray[np.bool_]) -> Weights:
    """Each value's share in the sum of the finite values at these places."""
    total = float(values[of & np.isfinite(values)].sum())
    return values / total if total else np.zeros_like(values)


def drawn(weights: Weights, count: int, random: Random) -> int:
    """One of the ``count`` places of the largest weights, with a probability like its weight.

    Of equal weights the place that comes first is the larger. If all weights drawn from are 0, or
    some are infinite, those are equally likely.
    """
    best = largest(weights, count)
    if len(best) == 1:
        return best[0]
    values = [float(weights[place]) for place in best]
    endless = [place for place, value in zip(best, values, strict=True) if value == np.inf]
    if endless:
        return random.choice(endless)
    return random.choices(best, values)[0] if any(values) else random.choice(best)


def largest(weights: Weights, count: int) -> Sequence[int]:
    """The places of the largest weights, largest first; closed ones are left out."""
    left, found = weights.copy() if count > 1 else weights, []
    for _ in range(count):
        place = int(left.argmax())
        if left[place] == CLOSED:
            break
        found.append(place)
        if len(found) < count:
            left[place] = CLOSED
    return found
