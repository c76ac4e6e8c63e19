"""When a claim holds, holds in direction, or does not."""

import pytest

from dataward.reproduce.claims import (
    Judgement,
    as_percent,
    judge_at_least,
    judge_at_most,
    judge_cases,
    judge_number,
    judge_order,
    judge_range,
    worst,
)

HOLDS, DIRECTION, FAILS = Judgement


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(0.80, HOLDS), (0.91, HOLDS), (0.30, DIRECTION), (2.0, DIRECTION), (0.0, FAILS), (-1, FAILS)],
)
def test_a_number_is_met_within_a_tenth_or_in_its_sign(ours: float, verdict: Judgement) -> None:
    assert judge_number(ours, 0.83, neutral=0.0) is verdict


def test_a_number_without_a_neutral_one_is_met_or_not() -> None:
    assert judge_number(2.36, 2.33) is HOLDS
    assert judge_number(2.36, 1.16) is FAILS


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([0.02, 0.20], HOLDS),
        ([0.02, 0.27], HOLDS),
        ([0.02, 0.40], DIRECTION),
        ([-0.01, 0.20], FAILS),  # within the slack, but not faster
        ([0.0, 0.20], FAILS),
    ],
)
def test_a_range_needs_all_numbers_on_its_side(ours: list[float], verdict: Judgement) -> None:
    assert judge_range(ours, 0.01, 0.23, slack=0.05) is verdict


@pytest.mark.parametrize(("ours", "verdict"), [(0.9, HOLDS), (0.8, DIRECTION), (0.75, FAILS)])
def test_a_bound_is_reached_or_approached(ours: float, verdict: Judgement) -> None:
    assert judge_at_least(ours, 0.9, neutral=0.75) is verdict
    assert judge_at_most(1.0 - ours, 0.1, neutral=0.25) is verdict


@pytest.mark.parametrize(("right", "verdict"), [(4, HOLDS), (3, DIRECTION), (2, FAILS), (0, FAILS)])
def test_a_statement_about_cases_needs_most_of_them(right: int, verdict: Judgement) -> None:
    assert judge_cases(right, 4) is verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([3, 2, 1], HOLDS), ([3, 1, 2], DIRECTION), ([1, 2, 3], FAILS), ([2, 2], FAILS)],
)
def test_an_order_is_judged_by_its_pairs(values: list[float], verdict: Judgement) -> None:
    assert judge_order(values) is verdict


def test_the_worst_of_several_counts() -> None:
    assert worst([HOLDS, DIRECTION]) is DIRECTION
    assert worst([DIRECTION, FAILS, HOLDS]) is FAILS


def test_small_shares_keep_a_decimal() -> None:
    assert [as_percent(share) for share in (0.661, 0.0123, -0.5)] == ["66%", "1.2%", "-50%"]
