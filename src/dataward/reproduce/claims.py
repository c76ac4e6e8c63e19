"""What a paper claims, what we measured instead, and whether the claim holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from dataward.reproduce.cells import Results

NEAR = 0.1  # a number within a tenth of the published one is taken to be the same


class Judgement(Enum):
    """How a claim fares here."""

    HOLDS = "holds"
    DIRECTION = "holds in direction"  # the same sign or order, but not the published size
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured, in a few words, and what that means for the claim."""

    ours: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """One claim of a paper.

    ``reason`` says why the claim does not hold in full, and is printed only if it does not.
    """

    statement: str
    paper: str
    find: Callable[[Results], Finding]
    reason: str = ""


def judge_number(
    ours: float, paper: float, *, neutral: float | None = None, near: float = NEAR
) -> Judgement:
    """Whether a number is the published one, or at least on the same side of ``neutral``."""
    if abs(ours - paper) <= near * abs(paper):
        return Judgement.HOLDS
    if neutral is None:
        return Judgement.FAILS
    same_side = (ours - neutral) * (paper - neutral) > 0
    return Judgement.DIRECTION if same_side else Judgement.FAILS


def judge_range(
    ours: Sequence[float], low: float, high: float, *, slack: float, neutral: float = 0.0
) -> Judgement:
    """Whether all numbers are on the published range's side of ``neutral``, and in the range.

    The range is widened by ``slack`` at both ends.
    """
    side = (low + high) / 2 - neutral
    if not all((number - neutral) * side > 0 for number in ours):
        return Judgement.FAILS
    inside = all(low - slack <= number <= high + slack for number in ours)
    return Judgement.HOLDS if inside else Judgement.DIRECTION


def judge_at_least(ours: float, bound: float, *, neutral: float) -> Judgement:
    """Whether a number is the published bound or more, or at least above ``neutral``."""
    if ours >= bound:
        return Judgement.HOLDS
    return Judgement.DIRECTION if ours > neutral else Judgement.FAILS


def judge_at_most(ours: float, bound: float, *, neutral: float) -> Judgement:
    """Whether a number is the published bound or less, or at least below ``neutral``."""
    return judge_at_least(-ours, -bound, neutral=-neutral)


def judge_cases(right: int, cases: int) -> Judgement:
    """A statement about several cases holds if all are right, in direction if most are."""
    assert cases, "a statement about no case"
    if right == cases:
        return Judgement.HOLDS
    return Judgement.DIRECTION if 2 * right > cases else Judgement.FAILS


def judge_order(values: Sequence[float]) -> Judgement:
    """Whether values that should fall do: judged by the pairs that are in the right order."""
    pairs = [(a, b) for place, a in enumerate(values) for b in values[place + 1 :]]
    return judge_cases(sum(a > b for a, b in pairs), len(pairs))


def worst(judgements: Sequence[Judgement]) -> Judgement:
    order = list(Judgement)
    return max(judgements, key=order.index)


def as_percent(share: float) -> str:
    return f"{100 * share:.1f}%" if abs(share) < 0.1 else f"{100 * share:.0f}%"
