"""Promises in a world where estimates are wrong, nodes crash or are slow."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.deadlines import (
    APART_SECONDS,
    NODES,
    WEATHERS,
    a_scene,
    edf_kept,
    general_kept,
    promised,
)
from dataward.deadlines.frames import outline_of
from dataward.sim.deadline_faults import NodeTrouble, TroubledDeadlineWorld, drawn_trouble
from dataward.sim.deadline_world import DeadlineSettings
from plan.dags import a_workflow

NEVER = [inf, inf]


def test_a_slow_node_takes_longer_only_while_it_is_slow() -> None:
    trouble = NodeTrouble(NEVER, NEVER, [100.0, inf], [200.0, inf], slow_factor=5.0)

    assert trouble.end_of(1, 0.0, 1000.0) == 1000.0
    assert trouble.end_of(0, 0.0, 100.0) == 100.0
    assert trouble.end_of(0, 0.0, 110.0) == 150.0
    assert trouble.end_of(0, 50.0, 100.0) == 50.0 + 50.0 + 100.0 + 30.0
    assert trouble.end_of(0, 200.0, 100.0) == 300.0


@given(st.floats(0, 300), st.floats(0, 300), st.floats(0, 300), st.floats(0, 200))
def test_what_starts_later_never_ends_earlier(
    begin: float, long: float, start: float, seconds: float
) -> None:
    trouble = NodeTrouble(NEVER, NEVER, [begin, inf], [begin + long, inf])

    assert trouble.end_of(0, start, seconds) >= start + seconds - 1e-6
    assert trouble.end_of(0, start, seconds) <= trouble.end_of(0, start + 1.0, seconds) + 1e-6


def test_shares_of_nodes_have_trouble() -> None:
    trouble = drawn_trouble(1000, 1, 3600.0, crash=0.3, slow=0.1)

    assert 250 < sum(at < inf for at in trouble.crashes) < 350
    assert 60 < sum(at < inf for at in trouble.slow_from) < 140
    assert all(b > a for a, b in zip(trouble.crashes, trouble.returns, strict=True) if a < inf)


def a_world(trouble: NodeTrouble, *true_work: list[float]) -> TroubledDeadlineWorld:
    chain = outline_of(a_workflow(("a", 300, ""), ("b", 300, "a")))
    settings = DeadlineSettings(2, busy_seconds=0.0, horizon_seconds=0.0)
    return TroubledDeadlineWorld(
        settings, [chain], true_work or [[300.0, 300.0]], trouble, [1.0, 1.0]
    )


def test_a_workflow_whose_node_crashes_is_moved_to_another_and_still_kept() -> None:
    for crashed in (0, 1):
        crashes = [400.0 if node == crashed else inf for node in range(2)]
        world = a_world(NodeTrouble(crashes, [5000.0, 5000.0], NEVER, NEVER))
        world.submit(0, 0, 2000.0)

        (times,) = world.run(3000.0).workflows

        assert times.accepted < 5.0
        assert times.ended <= 2000.0


def test_a_task_that_waits_for_a_slow_node_is_moved_in_time() -> None:
    outlines = [outline_of(a_workflow((name, 300, ""))) for name in "ab"]
    settings = DeadlineSettings(2, busy_seconds=0.0, horizon_seconds=0.0)
    for slow in (0, 1):
        slow_from = [100.0 if node == slow else inf for node in range(2)]
        trouble = NodeTrouble(NEVER, NEVER, slow_from, [5000.0, 5000.0])
        world = TroubledDeadlineWorld(settings, outlines, [[300.0], [300.0]], trouble, [1.0, 1.0])
        for deadline in (400.0, 400.0, 1200.0):
            world.submit(0, 0, deadline)
            world.run(5.0)

        workflows = world.run(5000.0).workflows

        assert [times.accepted < inf for times in workflows] == [True] * 3
        assert sum(times.is_late for times in workflows) == 1
        assert workflows[2].ended <= 1200.0


def test_a_workflow_that_takes_longer_than_thought_ends_late_but_ends() -> None:
    world = a_world(NodeTrouble(NEVER, NEVER, NEVER, NEVER), [300.0, 900.0])
    world.submit(0, 0, 700.0)

    (times,) = world.run(3000.0).workflows

    assert times.is_late
    assert 1200.0 <= times.ended <= 1210.0


@pytest.mark.parametrize("seed", range(6))
def test_no_accepted_workflow_is_late_with_exact_estimates_and_without_faults(seed: int) -> None:
    found = promised(a_scene(seed, "exact"))

    assert found.accepted > 0
    assert found.of_accepted == found.said == 1.0


@pytest.mark.parametrize("weather", WEATHERS)
def test_every_accepted_workflow_ends_whatever_happens(weather: str) -> None:
    scene = a_scene(3, weather)
    settings = DeadlineSettings(NODES, seed=3, busy_seconds=0.0, horizon_seconds=0.0)
    true_work = [w.runtime_seconds.tolist() for w in scene.workflows]
    world = TroubledDeadlineWorld(
        settings,
        [times.outline() for times in scene.reserved()],
        true_work,
        scene.trouble,
        scene.speeds,
    )
    for number, deadline in enumerate(scene.deadlines):
        world.submit(number, number % NODES, deadline)
        world.run(APART_SECONDS)

    gauges = world.run(12 * 3600.0)

    accepted = [w for w in gauges.workflows if w.accepted < inf]
    assert accepted
    assert all(w.ended < inf for w in accepted)


def test_without_contention_everybody_keeps_loose_deadlines() -> None:
    scene = a_scene(1, "exact")
    loose = type(scene)(scene.workflows, [1e5] * len(scene.workflows), scene.speeds, 0.0, {},
                        scene.trouble, 1)  # fmt: skip

    assert edf_kept(loose) == 1.0
    assert general_kept(loose, "dataward") == 1.0
