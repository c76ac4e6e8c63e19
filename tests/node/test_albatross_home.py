"""To the node with most of the data, unless that is overloaded or has the task already."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NOWHERE
from dataward.model.operations import Copy, InputFile, Shelf
from dataward.model.states import TaskState
from dataward.node.albatross_home import AlbatrossHome, node_with_most_data
from dataward.node.homes import Home, View

NODES = ["n0", "n1", "n2", "n3"]
SIZES = {"big": 100, "small": 60, "tiny": 50, "empty": 0}
HERE = "n3"


def a_task(*places: tuple[str, str], preferred: str = "n1") -> Standing:
    """A ready task that reads the files that are at these nodes."""
    inputs = tuple(InputFile(f, SIZES[f], "p") for f in dict.fromkeys(f for f, _ in places))
    copies = tuple(Copy(*place) for place in places)
    return Standing("t", TaskState.READY, 0, preferred, inputs=inputs, input_copies=copies)


BIG_AT_N2 = a_task(("big", "n2"))
IDLE: Mapping[str, float] = dict.fromkeys(NODES, 0.0)


def home(task: Standing, occasion: Occasion, loads: Mapping[str, float] = IDLE) -> Home:
    return AlbatrossHome(10.0).choose(task, occasion, View(HERE, NODES, loads, Random(1)))


# --- the node with most data ---------------------------------------------------------------------


def test_all_files_of_a_node_count_together() -> None:
    task = a_task(("big", "n1"), ("small", "n2"), ("tiny", "n2"))

    assert node_with_most_data(task, NODES, "n0") == "n2"


def test_of_equal_nodes_the_current_one_counts_else_the_first() -> None:
    task = a_task(("big", "n2"), ("big", "n1"))

    assert node_with_most_data(task, NODES, "n1") == "n1"
    assert node_with_most_data(task, NODES, "n0") == "n2"


@pytest.mark.parametrize("place", [("big", NOWHERE), ("big", "gone"), ("empty", "n1")])
def test_without_data_at_a_node_there_is_no_such_node(place: tuple[str, str]) -> None:
    assert node_with_most_data(a_task(place), NODES, "n0") is None


def test_a_place_that_is_told_twice_counts_once() -> None:
    task = a_task(("big", "n1"), ("small", "n2"), ("small", "n2"))

    assert node_with_most_data(task, NODES, "n0") == "n1"


# --- homes ---------------------------------------------------------------------------------------


def test_a_ready_task_is_sent_to_its_data_and_kept_there() -> None:
    assert home(BIG_AT_N2, Occasion.READY) == Home("n2", shelf=Shelf.KEPT)


@pytest.mark.parametrize("loads", [{"n2": 10.1}, {}], ids=["overloaded", "down"])
def test_if_that_is_not_possible_it_waits_where_it_came_from_the_queue(
    loads: Mapping[str, float],
) -> None:
    assert home(BIG_AT_N2, Occasion.READY, loads) == Home("n1", shelf=Shelf.SHARED)


def test_a_node_that_is_not_overloaded_yet_is_sent_more() -> None:
    assert home(BIG_AT_N2, Occasion.READY, {"n2": 10.0}).node == "n2"


def test_a_task_whose_data_is_where_it_came_from_the_queue_waits_there() -> None:
    assert home(a_task(("big", "n1")), Occasion.READY) == Home("n1", shelf=Shelf.SHARED)
    assert home(a_task(), Occasion.READY) == Home("n1", shelf=Shelf.SHARED)


def test_a_task_that_was_taken_is_sent_to_its_data_or_runs_here() -> None:
    assert home(BIG_AT_N2, Occasion.TAKEN) == Home("n2", shelf=Shelf.KEPT)
    assert home(BIG_AT_N2, Occasion.TAKEN, {"n2": 11.0}).node == HERE
    assert home(a_task(("big", HERE)), Occasion.TAKEN).node == HERE
    assert home(a_task(), Occasion.TAKEN).node == HERE


@pytest.mark.parametrize("occasion", [Occasion.ORPHANED, Occasion.REOPENED])
def test_a_task_that_lost_its_node_goes_to_its_data_its_node_or_the_nearest_that_is_up(
    occasion: Occasion,
) -> None:
    far = a_task(("big", "n2"), ("tiny", "n0"))

    assert home(far, occasion).node == "n2"
    assert home(far, occasion, {"n0": 0.0, "n1": 0.0, "n3": 0.0}).node == "n1"
    assert home(far, occasion, {"n0": 0.0, "n3": 0.0}).node == "n0"


def test_a_task_without_room_goes_elsewhere_and_stays_there() -> None:
    found = home(BIG_AT_N2, Occasion.NO_ROOM)

    assert found.node != HERE
    assert found.shelf is Shelf.KEPT  # or it would be sent back to the full disk


def test_only_the_loads_of_two_nodes_are_asked_for() -> None:
    popular = a_task(*(("big", node) for node in NODES), preferred="n1")

    assert list(AlbatrossHome().candidates(BIG_AT_N2, NODES)) == ["n1", "n2"]
    assert set(AlbatrossHome().candidates(popular, NODES)) == {"n1"}
    assert list(AlbatrossHome().candidates(a_task(preferred=""), NODES)) == []


@given(
    st.lists(st.tuples(st.sampled_from(sorted(SIZES)), st.sampled_from(NODES))),
    st.dictionaries(st.sampled_from(NODES), st.sampled_from([0.0, 10.0, 20.0])),
    st.sampled_from([Occasion.READY, Occasion.TAKEN]),
)
def test_whoever_is_sent_a_task_from_elsewhere_keeps_it_and_is_up_and_not_overloaded(
    places: list[tuple[str, str]], loads: Mapping[str, float], occasion: Occasion
) -> None:
    found = home(a_task(*places), occasion, loads)
    current = HERE if occasion is Occasion.TAKEN else "n1"

    assert found.node == current or (loads[found.node] <= 10.0 and found.shelf is Shelf.KEPT)
