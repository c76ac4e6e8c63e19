"""The picture of a workflow in lines of text."""

from hypothesis import given
from hypothesis import strategies as st

from dataward import WorkflowBuilder, generate
from dataward.reports.profile import ROWS_MAX, bar, profile_rows


def a_chain(tasks: int) -> WorkflowBuilder:
    wf = WorkflowBuilder("chain")
    for i in range(tasks):
        wf.task(f"t{i}", name="link", after=[f"t{i - 1}"] if i else [])
    return wf


def test_a_row_for_each_level_with_its_tasks_and_types() -> None:
    rows = profile_rows(generate("montage", 100))

    assert [row.first_level for row in rows] == list(range(9))
    assert all(row.first_level == row.last_level for row in rows)
    assert sum(row.tasks for row in rows) == 100
    assert rows[1].types == "mDiffFit"


def test_many_levels_are_averaged_into_few_rows_that_cover_all() -> None:
    rows = profile_rows(a_chain(5000).build())

    assert len(rows) <= ROWS_MAX
    assert rows[0].first_level == 0
    assert rows[-1].last_level == 4999
    assert [row.first_level for row in rows[1:]] == [row.last_level + 1 for row in rows[:-1]]
    assert {row.tasks for row in rows} == {1.0}


def test_a_row_names_its_two_commonest_types_and_counts_the_rest() -> None:
    wf = WorkflowBuilder("mixed")
    for i, name in enumerate(["rare", "most", "most", "most", "some", "some", "odd"]):
        wf.task(f"t{i}", name=name)

    (row,) = profile_rows(wf.build())

    assert row.types == "most, some +2"


def test_the_largest_value_fills_the_bar_and_the_least_shows_a_sliver() -> None:
    assert bar(10, 10, 8) == "█" * 8
    assert bar(5, 10, 8) == "█" * 4
    assert bar(1, 1_000_000, 8) == "▏"
    assert bar(0, 10, 8) == ""


def test_a_plain_bar_is_ascii() -> None:
    assert bar(10, 10, 8, plain=True) == "#" * 8
    assert bar(1, 1_000_000, 8, plain=True) == "#"


@given(st.floats(0, 1e9), st.floats(1e-3, 1e9), st.integers(1, 200), st.booleans())
def test_no_bar_is_longer_than_its_room(
    value: float, largest: float, width: int, plain: bool
) -> None:
    drawn = bar(min(value, largest), largest, width, plain=plain)

    assert len(drawn) <= width
    assert (len(drawn) > 0) == (value > 0)
