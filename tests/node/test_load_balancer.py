"""Who gives to whom, and how long a balancer waits; giving itself is seen in simulations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.node.load_balancer import next_pause, receiver
from dataward.node.settings import NodeSettings


def test_the_most_loaded_gives_to_the_least_loaded() -> None:
    assert receiver(10.0, {"a": 5.0, "b": 1.0, "c": 3.0}) == "b"


def test_only_the_most_loaded_of_all_gives() -> None:
    assert receiver(10.0, {"a": 11.0, "b": 0.0}) is None


def test_a_neighbour_as_loaded_gets_nothing_and_keeps_this_node_from_giving() -> None:
    assert receiver(10.0, {"a": 10.0}) is None
    assert receiver(10.0, {"a": 10.0, "b": 0.0}) is None


def test_equal_loads_go_to_the_lowest_id() -> None:
    assert receiver(10.0, {"c": 1.0, "b": 1.0, "d": 1.0}) == "b"


def test_one_without_neighbours_keeps_its_work() -> None:
    assert receiver(10.0, {}) is None


@given(
    st.floats(0, 1e6),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e6), max_size=6),
)
def test_work_only_ever_flows_downhill(load: float, neighbours: dict[str, float]) -> None:
    target = receiver(load, neighbours)

    if target is None:
        assert not neighbours or max(neighbours.values()) >= load
    else:
        assert neighbours[target] == min(neighbours.values()) < load


def test_pauses_double_up_to_a_maximum_and_a_gift_resets_them() -> None:
    settings = NodeSettings(pause_seconds_min=1.0, pause_seconds_max=5.0)

    pauses = [1.0]
    for _ in range(4):
        pauses.append(next_pause(pauses[-1], gave=False, settings=settings))

    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert next_pause(5.0, gave=True, settings=settings) == 1.0


def test_the_papers_pauses_are_the_default() -> None:
    settings = NodeSettings()

    assert next_pause(64.0, gave=True, settings=settings) == pytest.approx(0.001)
    assert next_pause(100.0, gave=False, settings=settings) == 128.0
