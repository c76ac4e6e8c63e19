"""A neighbourhood that was drawn once is drawn again when nodes have come or gone."""

from random import Random

from dataward.node.neighbourhood import Neighbourhood, Neighbours
from node.fake_world import FakeWorld


def static_neighbours(world: FakeWorld, size: int = 2) -> Neighbours:
    return Neighbours("n0", world.world.nodes, Random(1), world.client, Neighbourhood.STATIC, size)


def test_neighbours_that_have_left_are_none_any_more() -> None:
    world = FakeWorld(nodes=20)
    neighbours = static_neighbours(world)
    before = neighbours.draw()

    world.world.nodes.become(["n0", "x", "y"])

    assert not set(neighbours.draw()) & set(before)


def test_a_newcomer_may_become_a_neighbour() -> None:
    world = FakeWorld(nodes=1)
    neighbours = static_neighbours(world)
    assert neighbours.draw() == []

    world.world.nodes.become(["n0", "n1"])

    assert neighbours.draw() == ["n1"]


def test_as_long_as_nobody_comes_or_goes_they_stay() -> None:
    neighbours = static_neighbours(FakeWorld(nodes=100), size=10)

    assert neighbours.draw() == neighbours.draw()
