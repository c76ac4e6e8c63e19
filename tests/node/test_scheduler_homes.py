"""Whoever finds a task ready schedules it."""

from random import Random

import pytest

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import Shelf
from dataward.model.states import TaskState
from dataward.node.homes import Home, View
from dataward.node.scheduler_homes import SchedulerHome

NODES = [f"n{i}" for i in range(20)]
TASK = Standing("t", TaskState.READY, 0, preferred="n4")


@pytest.mark.parametrize("occasion", [Occasion.READY, Occasion.ORPHANED, Occasion.REOPENED])
def test_a_task_stays_in_the_pool_of_the_node_that_found_it(occasion: Occasion) -> None:
    view = View("n3", NODES, {}, Random(1))

    assert SchedulerHome().choose(TASK, occasion, view) == Home("n3", shelf=Shelf.POOLED)


def test_a_client_spreads_its_tasks_over_some_nodes() -> None:
    view = View("client", NODES, {}, Random(1), is_client=True)

    homes = [SchedulerHome(schedulers=4).choose(TASK, Occasion.READY, view) for _ in range(100)]

    assert {home.node for home in homes} == {"n0", "n1", "n2", "n3"}
    assert {home.shelf for home in homes} == {Shelf.POOLED}


def test_a_task_without_room_goes_to_another_nodes_own_queue() -> None:
    found = SchedulerHome().choose(TASK, Occasion.NO_ROOM, View("n3", NODES, {}, Random(1)))

    assert found.node != "n3"
    assert found.shelf is Shelf.SHARED


def test_without_any_scheduler_no_task_could_be_submitted() -> None:
    with pytest.raises(SettingError, match="schedulers"):
        SchedulerHome(schedulers=0)
