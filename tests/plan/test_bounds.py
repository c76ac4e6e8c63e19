from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.bounds import Bounds, makespan_bounds
from plan.dags import a_workflow, dags


def bounds(workflow: Workflow, nodes: int = 1, cores: int = 1, **more: float) -> Bounds:
    return makespan_bounds(
        workflow, nodes=nodes, cores=cores, bandwidth_bytes_per_second=10.0, **more
    )


def schedule(
    workflow: Workflow, order: tuple[int, ...], nodes: int, cores: int, fetch_rate: float | None
) -> float:
    """The makespan of a schedule without slack: each task where and when it fits first.

    Tasks are placed in the order given, parents first, into gaps too: over all orders this finds
    an optimal schedule without data. With data, files come one by one over the edge's link, in
    the order the tasks want them, and reach every node at once: cheaper than any real network.
    """
    ends: dict[int, float] = {}
    taken: list[list[tuple[float, float, int]]] = [[] for _ in range(nodes)]
    arrived: dict[int, float] = {}
    link = 0.0
    for task in order:
        ready = max([ends[p] for p in workflow.parents.row(task).tolist()], default=0.0)
        for file in workflow.inputs.row(task).tolist():
            if fetch_rate is not None and not workflow.producers.row(file).size:
                if file not in arrived:
                    link += workflow.size_bytes[file] / fetch_rate
                    arrived[file] = link
                ready = max(ready, arrived[file])
        width, run = int(workflow.cores[task]), float(workflow.runtime_seconds[task])
        start, node = min(
            (_first_fit(taken[n], ready, run, cores - width), n) for n in range(nodes)
        )
        ends[task] = start + run
        if run:
            taken[node].append((start, start + run, width))
    return max(ends.values())


def _first_fit(taken: list[tuple[float, float, int]], ready: float, run: float, room: int) -> float:
    def fits(start: float) -> bool:
        moments = [start, *(a for a, _, _ in taken if start < a < start + run)]
        return all(sum(w for a, b, w in taken if a <= m < b) <= room for m in moments)

    return min(t for t in [ready, *(b for _, b, _ in taken if b > ready)] if not run or fits(t))


def best_schedule(workflow: Workflow, nodes: int, cores: int, rate: float | None = None) -> float:
    rank = {t: set(workflow.parents.row(t).tolist()) for t in range(len(workflow))}
    orders = (
        order
        for order in permutations(range(len(workflow)))
        if all(rank[t] <= set(order[:i]) for i, t in enumerate(order))
    )
    return min(schedule(workflow, order, nodes, cores, rate) for order in orders)


def test_a_chain_is_bound_by_its_critical_path() -> None:
    found = bounds(a_workflow(("a", 2, ""), ("b", 3, "a")), nodes=4)

    assert (found.critical_path_seconds, found.best_seconds, found.which) == (5, 5, "critical path")


def test_independent_tasks_are_bound_by_their_area() -> None:
    found = bounds(a_workflow(*[(c, 2, "") for c in "abcdef"]), nodes=2, cores=2)

    assert found.work_area_seconds == 4  # six on four cores: one core gets two, though 12 / 4 is 3
    assert found.which == "work area"


def test_speed_divides_every_duration() -> None:
    assert bounds(a_workflow(("a", 2, "")), speed=4.0).best_seconds == 0.5


def test_wide_tasks_that_cannot_share_a_node_count_as_whole_nodes() -> None:
    tasks = [(c, 1, "") for c in "abcd"]
    wide = dict.fromkeys("abcd", 3)

    assert bounds(a_workflow(*tasks, cores=wide), cores=5).work_area_seconds == 4
    assert bounds(a_workflow(*tasks, cores=dict.fromkeys("abcd", 2)), cores=4).best_seconds == 2


def test_a_fan_in_is_bound_by_its_leaves_and_what_follows_them() -> None:
    leaves = [(c, 1, "") for c in "abcdefgh"]
    found = bounds(a_workflow(*leaves, ("y", 3, "abcdefgh"), ("z", 3, "y")), nodes=2)

    assert found.work_area_seconds == found.critical_path_seconds == 7
    assert (found.best_seconds, found.which) == (4 + 6, "head, area, tail")


def test_inputs_at_the_edge_must_all_leave_it_and_be_read() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.file("y", 60)
    builder.task("a", inputs=["x"], runtime_seconds=1)
    builder.task("b", inputs=["x", "y"], runtime_seconds=2)
    workflow = builder.build()

    assert bounds(workflow, nodes=2).compulsory_data_seconds == 0
    at_edge = bounds(workflow, nodes=2, edge_bandwidth_bytes_per_second=20.0)
    assert at_edge.compulsory_data_seconds == 16 + 2  # b's 160 bytes over its node's link of 10
    assert at_edge.which == "compulsory data"
    slow_edge = bounds(workflow, nodes=2, edge_bandwidth_bytes_per_second=5.0)
    assert slow_edge.compulsory_data_seconds == 32 + 2


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"nodes": 0}, "0 nodes of 1 cores can run nothing"),
        ({"speed": 0.0}, "a speed of 0.0 is not"),
        ({"edge_bandwidth_bytes_per_second": 0.0}, "edge bandwidth of 0.0"),
    ],
)
def test_impossible_clusters_are_refused(settings_: dict[str, float], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        bounds(a_workflow(("a", 1, "")), **settings_)  # type: ignore[arg-type]


def test_a_task_wider_than_a_node_is_refused() -> None:
    with pytest.raises(SettingError, match="task 'a' needs 3 cores, but a node has 2"):
        bounds(a_workflow(("a", 1, ""), cores={"a": 3}), cores=2)


@settings(max_examples=150, deadline=None)
@given(dags(most=5, cores_most=3), st.integers(1, 3), st.integers(3, 5))
def test_no_schedule_beats_a_bound(workflow: Workflow, nodes: int, cores: int) -> None:
    assert (
        bounds(workflow, nodes, cores).best_seconds <= best_schedule(workflow, nodes, cores) + 1e-9
    )


@settings(max_examples=100, deadline=None)
@given(dags(most=5), st.integers(1, 2))
def test_no_schedule_beats_a_bound_on_few_cores(workflow: Workflow, nodes: int) -> None:
    assert bounds(workflow, nodes, 1).best_seconds <= best_schedule(workflow, nodes, 1) + 1e-9


@settings(max_examples=100, deadline=None)
@given(dags(most=5, files=True), st.integers(1, 3), st.sampled_from([1.0, 4.0, 10.0]))
def test_no_schedule_beats_the_compulsory_data(workflow: Workflow, nodes: int, rate: float) -> None:
    found = bounds(workflow, nodes, 1, edge_bandwidth_bytes_per_second=rate)

    assert found.best_seconds <= best_schedule(workflow, nodes, 1, rate) + 1e-9


@settings(max_examples=60, deadline=None)
@given(dags(most=14, cores_most=2), st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_larger_schedule_beats_a_bound_either(workflow: Workflow, nodes: int, random) -> None:  # type: ignore[no-untyped-def]
    level = workflow.layers.level_of
    order = tuple(sorted(range(len(workflow)), key=lambda t: (level[t], random.random())))

    assert (
        bounds(workflow, nodes, 2).best_seconds <= schedule(workflow, order, nodes, 2, None) + 1e-9
    )
