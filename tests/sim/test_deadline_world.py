"""Many nodes that promise workflows in time."""

import pytest

from dataward.deadlines.frames import Outline, outline_of
from dataward.generate import generate
from dataward.plan.sequences import decompose
from dataward.sim.deadline_world import DeadlineSettings, DeadlineWorld


def papers_outlines(seconds: float = 300.0) -> list[Outline]:
    return [
        outline_of(generate(name, tasks, seconds=seconds))
        for name, tasks in (("fork-join", 10), ("laplace", 9))
    ]


def a_world(nodes: int = 60, **settings: float) -> DeadlineWorld:
    return DeadlineWorld(DeadlineSettings(nodes, **settings), papers_outlines())


def test_workflows_are_accepted_run_and_end_in_time() -> None:
    world = a_world(horizon_seconds=3600.0)

    gauges = world.run(4 * 3600.0)

    accepted = [w for w in gauges.workflows if w.accepted < float("inf")]
    assert len(accepted) >= 5
    assert len(gauges.ended()) == len(accepted)
    assert not any(w.is_late for w in gauges.workflows if w.ended < float("inf"))
    assert all(w.is_refused or w in accepted for w in gauges.workflows)


def test_nothing_is_left_of_workflows_that_have_ended_or_were_refused() -> None:
    world = a_world(horizon_seconds=3600.0)

    world.run(5 * 3600.0)

    assert world.runs == {}
    assert all(role is None or (not role.queue and not role.booked) for role in world.roles)


def test_a_node_runs_one_task_at_a_time_and_all_promises_can_be_kept_at_any_time() -> None:
    world = a_world(load=2.0)

    for _ in range(40):
        world.run(60.0)

        for role in world.roles:
            if role is not None:
                role.check_invariants(world.now)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [
        [(w.submitted, w.accepted) for w in a_world(seed=seed).run(1200.0).workflows]
        for seed in (1, 1, 2)
    ]

    assert runs[0] == runs[1] != runs[2]


def test_running_in_parts_is_running_at_once() -> None:
    parts, whole = a_world(seed=3), a_world(seed=3)
    for _ in range(6):
        parts.run(200.0)

    whole.run(1200.0)

    assert parts.gauges.workflows == whole.gauges.workflows
    assert parts.gauges.updates == whole.gauges.updates


@pytest.mark.parametrize("nodes", [1, 2, 3, 10])
def test_a_few_nodes_are_a_world_too(nodes: int) -> None:
    gauges = a_world(nodes, load=4.0).run(3600.0)

    assert gauges.workflows


def test_tighter_deadlines_are_refused_more_often() -> None:
    shares = []
    for priority in (0.5, 3.0):
        gauges = a_world(priority=priority).run(2 * 3600.0)
        shares.append(sum(w.is_refused for w in gauges.workflows) / len(gauges.workflows))

    assert shares[0] < shares[1]


def test_events_and_traffic_are_counted() -> None:
    gauges = a_world().run(1800.0)

    assert gauges.seconds == 1800.0
    assert gauges.sent.total.sum() == gauges.received.total.sum() > 0
    assert (gauges.sent.peak >= gauges.sent.total / gauges.seconds).all()
    assert gauges.events.total.sum() > 0
    assert len(gauges.hops) > 0


def test_the_papers_sizes_keep_their_width() -> None:
    for tasks in (5, 10, 40):
        assert decompose(generate("fork-join", tasks)).width == 2
    widths = [decompose(generate("laplace", side * side)).width for side in (3, 5, 7)]
    assert widths == sorted(widths)
    assert widths[-1] > 3
