"""Tasks go to the first keeper that is up."""

from random import Random

import pytest

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import Look, Shelf
from dataward.model.states import TaskState
from dataward.node.homes import Home, Homes, View
from dataward.node.keeper_homes import HashedHome, KeeperHome, drawn_keepers
from node.fake_world import FakeWorld

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


@pytest.mark.parametrize("rule", [KeeperHome(), HashedHome()])
def test_a_home_is_found_without_asking_for_a_tasks_inputs(rule: KeeperHome | HashedHome) -> None:
    place = FakeWorld(nodes=3)
    homes = Homes("n0", place.world.nodes, Random(1), place.client, rule)

    place.start(homes.find([TASK], Occasion.READY))

    assert place.asked(Look) == []


# --- every node keeps some -----------------------------------------------------------------------


def hashed(task: str, occasion: Occasion, *up: str) -> Home:
    standing = Standing(task, TaskState.READY, 0, preferred="n4")
    return HashedHome().choose(
        standing, occasion, View("n3", NODES, dict.fromkeys(up, 0.0), Random(1))
    )


def test_names_spread_tasks_over_the_pools_of_all_nodes() -> None:
    homes = [hashed(f"t{i}", Occasion.READY) for i in range(1000)]

    assert {home.shelf for home in homes} == {Shelf.POOLED}
    assert all(150 < sum(home.node == node for home in homes) < 250 for node in NODES)


def test_a_name_gives_the_same_node_in_every_process() -> None:
    assert [hashed(task, Occasion.READY).node for task in ("a", "b", "c")] == ["n2", "n1", "n0"]


def test_if_a_tasks_keeper_is_down_the_next_node_has_it() -> None:
    first, second, third = HashedHome().candidates(TASK, NODES)

    assert hashed("t", Occasion.ORPHANED, third, second) == Home(second, shelf=Shelf.POOLED)
    assert NODES.index(second) == (NODES.index(first) + 1) % len(NODES)


def test_if_none_of_a_tasks_keepers_is_up_it_goes_to_a_nodes_own_queue() -> None:
    other = next(node for node in NODES if node not in HashedHome().candidates(TASK, NODES))

    assert hashed("t", Occasion.ORPHANED, other)._replace(weighed=()) == Home(other)


def test_two_nodes_keep_each_others_tasks() -> None:
    assert sorted(HashedHome().candidates(TASK, NODES[:2])) == NODES[:2]


def test_a_node_asks_itself_first_then_others_at_random() -> None:
    asked = drawn_keepers("n3", NODES, Random(1))

    assert asked[0] == "n3"
    assert sorted(asked) == NODES
    assert asked[1:] != drawn_keepers("n3", NODES, Random(2))[1:]


def test_a_node_does_not_ask_thousands() -> None:
    nodes = [f"n{i}" for i in range(10_000)]

    asked = drawn_keepers("n7", nodes, Random(1))

    assert len(asked) == len(set(asked)) <= 33
