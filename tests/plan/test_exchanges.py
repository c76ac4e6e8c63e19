"""Last tasks that are alike exchange places."""

from random import Random

import numpy as np

from dataward import WorkflowBuilder
from dataward.model.platform import Machine, Platform
from dataward.plan.costs import costs_of
from dataward.plan.exchanges import with_fewer_moves
from dataward.plan.heft import upward_ranks
from dataward.plan.quick_links import placed_quickly

MB = 1_000_000


def joins(objects=12, readers=60, seed=1, runtime_seconds=lambda number: 1.0):
    """Objects of 1 to 50 MB, and tasks that read two of them each."""
    draw, wf = Random(seed), WorkflowBuilder("joins")
    for i in range(objects):
        wf.file(f"f{i}", draw.randint(1, 50) * MB)
        wf.task(f"make{i}", outputs=[f"f{i}"], runtime_seconds=1.0)
    for i in range(readers):
        inputs = [f"f{one}" for one in draw.sample(range(objects), 2)]
        wf.task(f"read{i}", inputs=inputs, runtime_seconds=runtime_seconds(i))
    return wf.build()


def nodes(count, speed=lambda number: 1.0):
    return Platform(tuple(Machine(f"n{i}", cores=1, speed=speed(i)) for i in range(count)))


def planned(workflow, platform):
    costs = costs_of(workflow, platform, {})
    schedule = placed_quickly(costs, platform, upward_ranks(costs))
    return schedule, with_fewer_moves(costs, platform, schedule)


def moved_bytes(workflow, schedule):
    at = {
        (file, int(schedule.nodes[task]))
        for task in range(len(workflow))
        for file in workflow.inputs.row(task).tolist()
    }
    made = {
        (file, int(schedule.nodes[task]))
        for task in range(len(workflow))
        for file in workflow.outputs.row(task).tolist()
    }
    return sum(int(workflow.size_bytes[file]) for file, _ in at - made)


def test_far_fewer_bytes_move():
    workflow = joins()

    before, after = planned(workflow, nodes(4))

    assert moved_bytes(workflow, after) < 0.75 * moved_bytes(workflow, before)


def test_every_place_is_taken_once_more_and_the_first_tasks_stay():
    workflow = joins()

    before, after = planned(workflow, nodes(4))

    def places(schedule):
        return sorted(zip(schedule.nodes.tolist(), schedule.starts.tolist(), strict=True))

    assert places(after) == places(before)
    assert np.array_equal(before.nodes[:12], after.nodes[:12])
    assert np.allclose(after.ends - after.starts, 1.0)
    read = {(f, int(after.nodes[t])) for t in range(72) for f in workflow.inputs.row(t).tolist()}
    assert all((each.file, each.node) in read for each in after.transfers)


def test_tasks_and_nodes_that_differ_exchange_nothing():
    for workflow, platform in (
        (joins(runtime_seconds=lambda number: 1.0 + number / 100), nodes(4)),
        (joins(), nodes(4, speed=lambda number: 1.0 + number)),
    ):
        before, after = planned(workflow, platform)

        assert np.array_equal(before.nodes, after.nodes)


def test_readers_of_one_file_are_not_exchanged_in_vain():
    wf = WorkflowBuilder("one")
    wf.file("f", MB)
    wf.task("make", outputs=["f"], runtime_seconds=1.0)
    for i in range(8):
        wf.task(f"read{i}", inputs=["f"], runtime_seconds=1.0)
    workflow = wf.build()

    before, after = planned(workflow, nodes(3))

    assert moved_bytes(workflow, after) == moved_bytes(workflow, before)
