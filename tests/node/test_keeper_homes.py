"""Tasks go to the first keeper that is up."""

from random import Random

import pytest

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import Shelf
from dataward.model.states import TaskState
from dataward.node.homes import Home, View
from dataward.node.keeper_homes import KeeperHome

NODES = ["n0", "n1", "n2", "n3", "n4"]
TASK = Standing("t", TaskState.READY, 0, preferred="n4")


def home(occasion: Occasion, *up: str, here: str = "n3") -> Home:
    return KeeperHome().choose(TASK, occasion, View(here, NODES, dict.fromkeys(up, 0.0), Random(1)))


def test_a_ready_task_goes_to_the_first_keepers_pool() -> None:
    assert home(Occasion.READY) == Home("n0", shelf=Shelf.POOLED)


@pytest.mark.parametrize("occasion", [Occasion.ORPHANED, Occasion.REOPENED])
def test_if_a_keeper_is_down_the_next_one_has_its_tasks(occasion: Occasion) -> None:
    assert home(occasion, "n4", "n2", "n1") == Home("n1", shelf=Shelf.POOLED)


def test_without_a_keeper_a_task_goes_to_a_nodes_own_queue() -> None:
    assert home(Occasion.ORPHANED, "n4", "n3").shelf is Shelf.SHARED
    assert home(Occasion.ORPHANED, "n4", "n3").node in ("n3", "n4")


def test_a_task_without_room_goes_to_another_nodes_own_queue() -> None:
    found = home(Occasion.NO_ROOM)

    assert found.node != "n3"
    assert found.shelf is Shelf.SHARED


def test_keepers_are_asked_for_their_loads() -> None:
    assert list(KeeperHome().candidates(TASK, NODES)) == ["n0", "n1", "n2"]
