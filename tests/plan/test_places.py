"""Where files are, and nodes by kind."""

from dataclasses import replace

from dataward.model.builder import WorkflowBuilder
from dataward.model.edges import Edges
from dataward.model.platform import uniform_platform
from dataward.plan.kinds import KINDS_MAX, kinds_of
from dataward.plan.places import Places


def a_places(*outside: str, located: dict[int, list[int]] | None = None) -> Places:
    """Files from outside, and two more, of which one is written by two tasks."""
    builder = WorkflowBuilder()
    for name in outside:
        builder.file(name, 1)
    builder.task("one", inputs=outside, outputs=["made", "twice"])
    builder.task("two", inputs=outside, outputs=["twice"])
    return Places(builder.build(Edges.DECLARED), located or {})


def test_files_in_the_same_places_are_together() -> None:
    places = a_places("a", "b", "c", located={0: [1], 1: [1], 2: [2]})

    assert list(places.together([0, 1, 2]).values()) == [[0, 1], [2]]


def test_files_that_nobody_has_yet_are_left_out() -> None:
    places = a_places("a")

    assert list(places.together([0, 1, 2]).values()) == [[0]]


def test_files_that_part_keep_the_copies_they_had() -> None:
    places = a_places("a", "b", located={0: [1], 1: [1]})
    whole = places.of[0]

    apart = places.part(whole, [1])
    apart.at[4] = 2.0

    assert whole.at == {1: 0.0}
    assert apart.at == {1: 0.0, 4: 2.0}
    assert places.part(whole, [0]) is whole


def test_a_file_with_two_writers_is_where_both_have_run() -> None:
    places = a_places("a")

    places.add_made([1, 2], 5, 10.0)
    places.add_made([2], 6, 20.0)

    assert places.of[1].at == {5: 10.0}
    assert places.of[2].at == {5: 10.0, 6: 20.0}
    assert places.part(places.of[1], [1]) is places.of[1]


def test_equal_nodes_are_of_one_kind() -> None:
    platform = uniform_platform(4)
    first, *others = platform.machines
    machines = (replace(first, speed=2.0), *others)

    assert kinds_of(platform) == [0, 0, 0, 0]
    assert kinds_of(replace(platform, machines=machines)) == [0, 1, 1, 1]


def test_nodes_that_all_differ_are_of_few_kinds_that_are_alike() -> None:
    platform = uniform_platform(100)
    machines = tuple(
        replace(machine, speed=(1 if at < 50 else 8) + at / 1000)
        for at, machine in enumerate(platform.machines)
    )

    kinds = kinds_of(replace(platform, machines=machines))

    assert kinds == [0] * 50 + [1] * 50


def test_nodes_of_too_many_kinds_however_rounded_are_of_one() -> None:
    platform = uniform_platform(KINDS_MAX + 1)
    machines = tuple(
        replace(machine, site=f"s{at}") for at, machine in enumerate(platform.machines)
    )

    assert set(kinds_of(replace(platform, machines=machines))) == {0}
