"""Random numbers that come out the same on every machine and with every numpy.

``RandomState`` is numpy's frozen stream (its newer ``Generator`` may change between releases). Run
times are rounded to a hundredth of a second, as in the public instances, and sizes to a byte, so
that results agree even where machines compute the last bit of a logarithm differently.
"""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Draws = NDArray[np.float64]


def random_state(shape: str, seed: int) -> RandomState:
    """The random stream of one shape and seed; ``hash()`` would change between processes."""
    digest = hashlib.blake2b(f"dataward/{shape}/{seed}".encode(), digest_size=32).digest()
    return RandomState(np.frombuffer(digest, dtype="<u4").astype(np.uint32))


class Draw(Protocol):
    """A distribution of run times (seconds) or sizes (bytes)."""

    def sample(self, random: RandomState, count: int) -> Draws:
        """``count`` values, all drawn from ``random``."""


@dataclass(frozen=True, slots=True)
class Always:
    """The same value every time."""

    value: float

    def sample(self, random: RandomState, count: int) -> Draws:
        return np.full(count, self.value)


@dataclass(frozen=True, slots=True)
class Between:
    """From low to high with the given mean: uniform if the mean is the middle, else skewed."""

    low: float
    mean: float
    high: float

    def sample(self, random: RandomState, count: int) -> Draws:
        # u**k has the mean 1 / (k + 1).
        power = (self.high - self.low) / (self.mean - self.low) - 1.0
        u = random.random_sample(count)
        return self.low + (self.high - self.low) * (u if abs(power - 1.0) < 1e-9 else u**power)


def uniform(low: float, high: float) -> Between:
    return Between(low, (low + high) / 2, high)


def half_either_way(mean: float) -> Between:
    """Uniform over half to one and a half times the mean, as many public samples are."""
    return uniform(0.5 * mean, 1.5 * mean)


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution; a value outside low to high is drawn again."""

    mean: float
    deviation: float
    low: float
    high: float

    def sample(self, random: RandomState, count: int) -> Draws:
        values = self.mean + self.deviation * random.standard_normal(count)
        while True:
            outside = np.flatnonzero((values < self.low) | (values > self.high))
            if not outside.size:
                return values
            again = random.standard_normal(outside.size)
            values[outside] = self.mean + self.deviation * again


def seconds(values: Draws) -> list[float]:
    """Run times rounded to a hundredth of a second, as plain floats."""
    rounded: list[float] = np.round(values, 2).tolist()
    return rounded


def sizes(values: Draws) -> list[int]:
    """Sizes rounded to whole bytes, as plain ints."""
    rounded: list[int] = np.rint(values).astype(np.int64).tolist()
    return rounded


def draw_one(draw: Draw, random: RandomState) -> float:
    return float(draw.sample(random, 1)[0])


def draw_seconds(draw: Draw, random: RandomState, count: int) -> list[float]:
    return seconds(draw.sample(random, count))


def draw_sizes(draw: Draw, random: RandomState, count: int) -> list[int]:
    return sizes(draw.sample(random, count))
