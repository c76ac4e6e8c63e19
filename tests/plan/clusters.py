"""Small platforms for the plans' tests, by hand and drawn, and what every schedule must keep."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Platform
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan
from dataward.plan.bounds import makespan_bounds
from dataward.plan.schedule import Schedule

CLOSE = 1e-9


def a_platform(
    *nodes: tuple[int, float],
    bandwidth: float | Sequence[float] = 1.0,
    origin: float = 10.0,
    disk: float = 1e18,
) -> Platform:
    """Nodes as (cores, speed); bandwidths are the same both ways, and disks are no limit."""
    links = [bandwidth] * len(nodes) if isinstance(bandwidth, int | float) else bandwidth
    machines = tuple(
        Machine(
            NodeId(f"n{i}"),
            cores=cores,
            speed=speed,
            up_bytes_per_second=link,
            down_bytes_per_second=link,
            disk_bytes_per_second=disk,
        )
        for i, ((cores, speed), link) in enumerate(zip(nodes, links, strict=True))
    )
    return Platform(machines, origin_bytes_per_second=origin)


@st.composite
def platforms(draw: st.DrawFn, most: int = 6, cores_most: int = 3) -> Platform:
    """Up to ``most`` nodes of different cores, speeds and links, on one site or two.

    The first has the most cores, so that there is a node for every task.
    """
    count = draw(st.integers(1, most))
    links = st.sampled_from([1.0, 4.0, 1e9])
    machines = tuple(
        Machine(
            NodeId(f"n{i}"),
            cores=draw(st.integers(1, cores_most)) if i else cores_most,
            speed=draw(st.sampled_from([0.5, 1.0, 2.0])),
            up_bytes_per_second=draw(links),
            down_bytes_per_second=draw(links),
            site=draw(st.sampled_from(["a", "b"])),
        )
        for i in range(count)
    )
    between = draw(st.sampled_from([float("inf"), 2.0]))
    return Platform(
        machines,
        site_bytes_per_second=between,
        origin_bytes_per_second=draw(st.sampled_from([1.0, 8.0])),
        origin_site=draw(st.sampled_from(["", "a"])),
    )


def placements(workflow: Workflow, platform: Platform) -> st.SearchStrategy[dict[int, list[int]]]:
    """Some of the files that no task writes, on some of the nodes."""
    outside = np.flatnonzero(workflow.producers.degrees() == 0).tolist()
    if not outside:
        return st.just({})
    count = len(platform.machines)
    some = st.lists(st.integers(0, count - 1), unique=True, max_size=count)
    return st.dictionaries(st.sampled_from(outside), some)


def check_schedule(workflow: Workflow, platform: Platform, schedule: Schedule) -> None:
    """Hold a schedule to what any schedule must keep: order, cores, run times, lower bounds."""
    nodes, starts, ends = schedule.nodes.tolist(), schedule.starts, schedule.ends
    machines = platform.machines
    assert len(nodes) == len(starts) == len(ends) == len(workflow)
    for task, node in enumerate(nodes):
        assert workflow.cores[task] <= machines[node].cores
        seconds = workflow.runtime_seconds[task] / machines[node].speed
        assert abs(ends[task] - starts[task] - seconds) <= CLOSE * (1 + ends[task])
        for parent in workflow.parents.row(task).tolist():
            assert ends[parent] <= starts[task]
    for node, machine in enumerate(machines):
        here = [task for task in range(len(nodes)) if nodes[task] == node]
        for moment in here:
            at = starts[moment]
            used = sum(int(workflow.cores[t]) for t in here if starts[t] <= at < ends[t])
            assert used <= machine.cores
    bounds = makespan_bounds(
        workflow,
        nodes=len(machines),
        cores=max(machine.cores for machine in machines),
        bandwidth_bytes_per_second=max(m.down_bytes_per_second for m in machines),
        speed=max(machine.speed for machine in machines),
    )
    assert schedule.makespan_seconds >= bounds.best_seconds * (1 - CLOSE)


def check_plan(plan: Plan, schedule: Schedule) -> None:
    """A plan says what its schedule says: nodes, planned starts as urgencies, and the makespan."""
    assert plan.preferred.tolist() == schedule.nodes.tolist()
    assert plan.priority.tolist() == schedule.starts.tolist()
    assert plan.estimated_makespan_seconds == schedule.makespan_seconds
