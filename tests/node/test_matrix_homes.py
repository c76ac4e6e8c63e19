"""MATRIX's Algorithm 1: share a task, or send it to its largest input."""

from collections.abc import Mapping, Sequence
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NOWHERE
from dataward.model.operations import Copy, InputFile, Shelf
from dataward.model.states import TaskState
from dataward.node.homes import Home, View
from dataward.node.learned import Learned
from dataward.node.matrix_homes import (
    DataObject,
    MatrixHome,
    Submission,
    data_objects,
    node_to_keep,
)

NODES = ["n0", "n1", "n2", "n3"]

# --- Algorithm 1 ---------------------------------------------------------------------------------


def as_printed(
    data_size: Sequence[int], parent_list: Sequence[str], net_band: float, length: float, t: float
) -> str | None:
    """The paper's lines 1 to 19; None for the SReadyQ, else the node whose LReadyQ has the task."""
    all_data_size = sum(data_size)
    if all_data_size / net_band / length <= t:
        return None
    max_data_size = data_size[0]
    max_data_scheduler_idx = 0
    for i in range(1, len(data_size)):
        if data_size[i] > max_data_size:
            max_data_size = data_size[i]
            max_data_scheduler_idx = i
    if max_data_size / net_band / length <= t:
        return None
    return parent_list[max_data_scheduler_idx]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(NODES)), max_size=5),
    st.sampled_from([1.0, 2.0, 4.0]),
    st.sampled_from([0.5, 1.0, 8.0]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 4.0, inf]),
)
def test_it_decides_as_the_paper_prints_it(
    objects: list[tuple[int, str]], bandwidth: float, seconds: float, threshold: float
) -> None:
    sizes, places = [size for size, _ in objects], [node for _, node in objects]

    found = node_to_keep(
        [DataObject(size, node) for size, node in objects],
        seconds=seconds,
        bandwidth_bytes_per_second=bandwidth,
        threshold=threshold,
    )

    assert found == as_printed(sizes, places, bandwidth, seconds, threshold)


def test_many_small_objects_are_no_reason_to_stay_even_if_they_are_much_together() -> None:
    objects = [DataObject(10, "n1"), DataObject(10, "n2"), DataObject(11, "n3")]

    kept = [
        node_to_keep(objects, seconds=1.0, bandwidth_bytes_per_second=1.0, threshold=t)
        for t in (10.9, 11.0, 31.0)
    ]

    assert kept == ["n3", None, None]  # line 12: the largest alone is small enough


def test_a_task_of_no_length_stays_with_any_data_but_not_without() -> None:
    limits = {"seconds": 0.0, "bandwidth_bytes_per_second": 1.0, "threshold": 0.5}

    assert node_to_keep([DataObject(1, "n1")], **limits) == "n1"
    assert node_to_keep([], **limits) is None


# --- what the data is ----------------------------------------------------------------------------


def a_task(
    *files: tuple[str, int, str],
    at: Mapping[str, Sequence[str]],
    preferred: str = "n0",
    seconds: float = 1.0,
) -> Standing:
    """A ready task; its files have an id, a size and a producer, and are at these nodes."""
    copies = tuple(Copy(file, node) for file, nodes in at.items() for node in nodes)
    inputs = tuple(InputFile(*file) for file in files)
    return Standing(
        "t", TaskState.READY, 0, preferred, seconds=seconds, inputs=inputs, input_copies=copies
    )


def test_the_files_of_one_parent_are_one_object() -> None:
    task = a_task(
        ("a", 5, "p"), ("b", 6, "q"), ("c", 7, "p"), at={"a": ["n1"], "b": ["n2"], "c": ["n1"]}
    )

    assert data_objects(task, NODES, "n0") == [DataObject(12, "n1"), DataObject(6, "n2")]


def test_every_input_of_the_workflow_is_an_object() -> None:
    task = a_task(("a", 5, ""), ("b", 6, ""), at={"a": ["n1"], "b": ["n1"]})

    assert data_objects(task, NODES, "n0") == [DataObject(5, "n1"), DataObject(6, "n1")]


def test_of_several_places_that_where_the_task_waits_counts_else_the_first() -> None:
    task = a_task(("a", 5, ""), at={"a": ["n2", "n1", "n3"]})

    assert data_objects(task, NODES, "n3") == [DataObject(5, "n3")]
    assert data_objects(task, NODES, "n0") == [DataObject(5, "n2")]


def test_an_object_is_where_most_of_it_is() -> None:
    task = a_task(("a", 5, "p"), ("b", 6, "p"), at={"a": ["n0", "n1"], "b": ["n1"]})

    assert data_objects(task, NODES, "n0") == [DataObject(11, "n1")]


def test_what_no_node_has_is_left_out() -> None:
    task = a_task(("a", 5, ""), ("b", 6, "p"), ("c", 7, "q"), at={"b": [NOWHERE], "c": ["n1"]})

    assert data_objects(task, NODES, "n0") == [DataObject(7, "n1")]


def test_sizes_are_those_that_were_committed() -> None:
    task = Standing(
        "t",
        TaskState.READY,
        0,
        inputs=(InputFile("a", 0, "p"),),
        input_copies=(Copy("a", "n1", 9, "digest"),),
    )

    assert data_objects(task, NODES, "n0") == [DataObject(9, "n1")]


# --- homes ---------------------------------------------------------------------------------------

BIG = a_task(("a", 100, "p"), at={"a": ["n2"]}, preferred="n1", seconds=10.0)
RLDS = MatrixHome(0.5, bandwidth_bytes_per_second=10.0)


def home(
    rule: MatrixHome,
    task: Standing = BIG,
    occasion: Occasion = Occasion.READY,
    up: Sequence[str] = (),
    learned: Learned | None = None,
) -> Home:
    view = View("n3", NODES, dict.fromkeys(up, 0.0), Random(1), learned or Learned())
    return rule.choose(task, occasion, view)


def test_a_task_with_large_data_is_kept_where_that_is() -> None:
    assert home(RLDS) == Home("n2", shelf=Shelf.KEPT)  # 10 s to move, 10 s to run


def test_a_task_with_small_data_is_shared_where_it_waits() -> None:
    assert home(MatrixHome(1.0, 10.0)) == Home("n1", shelf=Shelf.SHARED)


def test_in_the_worst_case_all_tasks_wait_at_one_node() -> None:
    worst = MatrixHome(1.0, 10.0, Submission.WORST)

    assert home(worst) == Home("n0", shelf=Shelf.SHARED)
    assert list(worst.candidates(BIG, NODES)) == ["n0", "n2"]
    assert list(RLDS.candidates(BIG, NODES)) == ["n1", "n2"]


def test_mlb_shares_everything_and_mdl_all_but_tasks_without_data() -> None:
    mlb, mdl, tiny = MatrixHome(inf), MatrixHome(0.0), a_task(("a", 1, "p"), at={"a": ["n2"]})

    assert home(mlb).shelf is Shelf.SHARED
    assert home(mdl, tiny) == Home("n2", shelf=Shelf.KEPT)
    assert home(mdl, a_task(at={})).shelf is Shelf.SHARED


def test_a_task_of_unknown_length_is_taken_to_run_as_long_as_the_mean() -> None:
    unknown = a_task(("a", 100, "p"), at={"a": ["n2"]}, seconds=0.0)
    long, short = Learned(tasks=1, run_seconds=20.0), Learned(tasks=1, run_seconds=19.0)

    assert home(RLDS, unknown, learned=long).shelf is Shelf.SHARED
    assert home(RLDS, unknown, learned=short).shelf is Shelf.KEPT
    assert home(RLDS, unknown).shelf is Shelf.KEPT  # nothing is known: one second


def test_a_node_that_has_changed_its_policy_decides_by_that() -> None:
    assert home(RLDS, learned=Learned(threshold=inf)).shelf is Shelf.SHARED
    assert home(MatrixHome(inf), learned=Learned(threshold=0.0)).shelf is Shelf.KEPT


SEARCHING = [Occasion.ORPHANED, Occasion.REOPENED]


@pytest.mark.parametrize("occasion", SEARCHING)
def test_a_task_that_lost_its_node_goes_where_a_ready_one_would_if_that_is_up(
    occasion: Occasion,
) -> None:
    assert home(RLDS, occasion=occasion, up=["n2", "n3"]) == Home("n2", shelf=Shelf.KEPT)


@pytest.mark.parametrize("occasion", SEARCHING)
def test_else_it_goes_where_least_must_be_moved_and_is_shared(occasion: Occasion) -> None:
    task = a_task(("a", 100, "p"), ("b", 10, "q"), at={"a": ["n2"], "b": ["n1"]}, seconds=1.0)

    found = home(RLDS, task, occasion, up=["n0", "n1", "n3"])

    assert (found.node, found.shelf) == ("n1", Shelf.SHARED)


def test_a_task_without_room_goes_to_another_node() -> None:
    found = home(RLDS, occasion=Occasion.NO_ROOM)

    assert found.node != "n3"
    assert found.shelf is Shelf.KEPT  # or this node might steal it again


def test_a_bandwidth_of_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match="bandwidth_bytes_per_second"):
        MatrixHome(bandwidth_bytes_per_second=0.0)
