"""Our own strategy in whole simulated runs."""

from dataclasses import replace

import pytest

from dataward import generate
from dataward.api.simulate import simulate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptBegan, Event, FileMoved, WorkGiven
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.platform import Machine, Platform, uniform_platform
from dataward.model.workflow import Workflow
from dataward.sim.simulation import Simulation
from dataward.strategies.choosing import changed_strategies


def test_on_machines_of_known_speeds_nothing_moves_while_run_times_are_as_estimated() -> None:
    equal = uniform_platform(4)
    speeds = (1.0, 2.0, 0.5, 1.0)
    machines = tuple(
        replace(machine, speed=speed) for machine, speed in zip(equal.machines, speeds, strict=True)
    )

    (without_spares,) = changed_strategies("dataward", ["spare_seconds=inf"])

    report = simulate(
        generate("sipht", 300, seed=1),
        platform=replace(equal, machines=machines),
        strategy=without_spares,
    )

    assert report.is_complete
    assert [event for event in report.events() if isinstance(event, WorkGiven)] == []


def test_files_from_a_busy_origin_come_one_after_another_as_planned() -> None:
    builder = WorkflowBuilder()
    for at in range(12):
        builder.file(f"in{at}", 2 * 10**9)
        builder.task(f"read{at}", inputs=[f"in{at}"], outputs=[f"out{at}"], runtime_seconds=1)
        for then in range(16):
            builder.task(f"then{at}-{then}", inputs=[f"out{at}"], runtime_seconds=10)
    equal = uniform_platform(12)
    slow = replace(equal, origin_bytes_per_second=250e6)  # as much as two nodes can take

    report = simulate(builder.build(), platform=slow, strategy="dataward")

    # All files take 96 s. Side by side all would come after 96 s, and then 192 tasks have 48 cores.
    assert report.is_complete
    assert report.summary.makespan_seconds < 96 + 25


def test_two_nodes_that_read_an_input_of_a_slow_origin_have_it_sent_once() -> None:
    builder = WorkflowBuilder()
    builder.file("large", 10**9)
    for name in ("one", "other"):
        builder.task(name, inputs=["large"], runtime_seconds=400)
    one_core = tuple(Machine(NodeId(f"n{i}"), cores=1) for i in range(2))
    slow = Platform(one_core, origin_bytes_per_second=1e7)

    report = simulate(builder.build(), platform=slow, strategy="dataward")

    moved = [event for event in report.events() if isinstance(event, FileMoved)]
    assert [event.source for event in moved].count(ORIGIN) == 1
    assert report.summary.makespan_seconds < 100 + 20 + 400


def test_all_tasks_run_on_one_node_where_links_are_so_slow_that_this_is_best() -> None:
    builder = WorkflowBuilder()
    for at in range(4):
        builder.file(f"made{at}", 10**10)
        builder.task(f"make{at}", outputs=[f"made{at}"], runtime_seconds=20)
    builder.task("join", inputs=[f"made{at}" for at in range(4)], runtime_seconds=20)
    machines = tuple(
        Machine(NodeId(f"n{i}"), cores=2, up_bytes_per_second=1e7, down_bytes_per_second=1e7)
        for i in range(3)
    )

    report = simulate(builder.build(), platform=Platform(machines), strategy="dataward")

    assert [event for event in report.events() if isinstance(event, FileMoved)] == []
    assert report.summary.makespan_seconds < 300


def a_long_task() -> Workflow:
    builder = WorkflowBuilder()
    builder.task("long", runtime_seconds=1000)
    return builder.build()


@pytest.mark.parametrize("spare_seconds", ["10", "inf"])
def test_a_crash_costs_nothing_where_another_node_was_idle(spare_seconds: str) -> None:
    (strategy,) = changed_strategies("dataward", [f"spare_seconds={spare_seconds}"])
    simulation = Simulation(a_long_task(), uniform_platform(2), strategy)

    def crash_late(event: Event) -> None:
        if isinstance(event, AttemptBegan) and not event.replica and event.at < 1:
            simulation.kernel.spawn(crash_after(900.0, event.node))

    async def crash_after(seconds: float, node: NodeId) -> None:
        await simulation.kernel.sleep(seconds)
        simulation.crash(node)

    simulation.watch(crash_late)
    makespan = simulation.run().makespan_seconds

    if spare_seconds == "inf":
        assert makespan > 1900
    else:
        assert makespan < 1005


def test_a_node_alone_begins_with_the_task_whose_files_take_long() -> None:
    builder = WorkflowBuilder()
    builder.file("large", 10**11)
    builder.task("runs", runtime_seconds=100)
    builder.task("writes", outputs=["large"], runtime_seconds=50)
    alone = Platform((Machine(NodeId("n0"), cores=1, disk_bytes_per_second=5e8),))

    report = simulate(builder.build(), platform=alone, strategy="dataward")

    assert report.summary.makespan_seconds < 50 + 200 + 5


def test_a_large_input_comes_while_the_tasks_run_that_its_reader_waits_for() -> None:
    builder = WorkflowBuilder()
    builder.file("large", 10**10)
    builder.task("first", outputs=["made"], runtime_seconds=200)
    builder.task("then", inputs=["large", "made"], runtime_seconds=10)

    report = simulate(builder.build(), platform=uniform_platform(2), strategy="dataward")

    (moved,) = [event for event in report.events() if isinstance(event, FileMoved)]
    assert (moved.file, moved.at < 200) == ("large", True)


def test_a_large_output_goes_to_its_reader_while_that_waits_for_others() -> None:
    builder = WorkflowBuilder()
    builder.task("short", outputs=["large"], runtime_seconds=10)
    builder.task("long", outputs=["small"], runtime_seconds=2000)
    builder.task("then", inputs=["large", "small"], runtime_seconds=10)
    builder.file("large", 10**10)
    one_core = [Machine(NodeId(f"n{i}"), cores=1, speed=speed) for i, speed in enumerate((1, 4))]

    report = simulate(builder.build(), platform=Platform(tuple(one_core)), strategy="dataward")

    events = [event for event in report.events() if isinstance(event, FileMoved)]
    assert [(event.file, event.at < 500) for event in events] == [("large", True)]
