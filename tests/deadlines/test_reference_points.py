import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.deadlines.reference_points import (
    CHANGE_SECONDS,
    OFFSETS_SECONDS,
    STEPS_SECONDS,
    reference_points,
)

TABLE_1 = {
    "4:33": "4:40 4:50 5:00 5:30 6:00 8:00 12:00 16:00 1d:00:00 2d:00:00",
    "5:48": "5:55 6:00 6:15 6:30 7:00 8:00 12:00 16:00 1d:00:00 2d:00:00",
    "17:17": "17:25 17:30 17:45 18:00 19:00 20:00 1d:00:00 1d:08:00 1d:16:00 2d:00:00",
}


def seconds_of(moment: str) -> float:
    """``1d:08:00`` or ``4:33`` as seconds."""
    days, _, clock = moment.rpartition("d:")
    hours, minutes = clock.split(":")
    return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60


@pytest.mark.parametrize(("created", "points"), TABLE_1.items())
def test_points_are_those_of_the_papers_table_1(created: str, points: str) -> None:
    assert list(reference_points(seconds_of(created))) == [seconds_of(p) for p in points.split()]


@given(st.floats(0, 1e9))
def test_points_are_in_order_and_about_as_far_as_they_should_be(created: float) -> None:
    points = reference_points(created)

    assert list(points) == sorted(points)
    for point, offset, step in zip(points, OFFSETS_SECONDS, STEPS_SECONDS, strict=True):
        assert created + offset - 1e-6 <= point <= created + offset + step


@given(st.integers(0, 10**6), st.floats(0.001, 0.999))
def test_summaries_made_between_two_changes_have_equal_points(step: int, share: float) -> None:
    just_after = step * CHANGE_SECONDS + 1e-3

    within = reference_points(just_after + share * (CHANGE_SECONDS - 2e-3))

    assert within == reference_points(just_after)
