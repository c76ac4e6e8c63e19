"""How far a node runs ahead: only while tasks are short."""

from hypothesis import given
from hypothesis import strategies as st

from dataward.node.lead import TASKS_MAX, Lead, believed
from dataward.node.settings import NodeSettings

seconds = st.floats(0, 1e6)


def a_lead(lead_seconds: float, *taken: float, cores: int = 2) -> Lead:
    lead = Lead(NodeSettings(lead_seconds=lead_seconds), cores)
    for one in taken:
        lead.learn(one)
    return lead


def test_nothing_is_ahead_before_a_task_has_run() -> None:
    assert a_lead(1.0).tasks == 0


def test_as_many_as_fit_into_the_time_on_every_core() -> None:
    assert a_lead(0.02, 0.005).tasks == 2 * 4


def test_one_slow_task_ends_it_at_once_and_short_ones_bring_it_back() -> None:
    lead = a_lead(0.02, 0.0001, 0.0001, 3.0)
    assert lead.tasks == 0

    for _ in range(60):
        lead.learn(0.0001)

    assert lead.tasks == 2 * TASKS_MAX


@given(seconds, st.lists(seconds, max_size=20), st.integers(1, 64))
def test_it_is_never_more_than_the_time_allows(
    lead_seconds: float, taken: list[float], cores: int
) -> None:
    tasks = a_lead(lead_seconds, *taken, cores=cores).tasks

    assert 0 <= tasks <= cores * TASKS_MAX
    assert not (taken and taken[-1] > lead_seconds and tasks)


@given(st.lists(seconds, min_size=1))
def test_what_is_believed_lies_between_what_was_seen(seen: list[float]) -> None:
    known = -1.0
    for one in seen:
        known = believed(known, one)
        assert known >= one

    assert min(seen) <= known <= max(seen)
