import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataward.plan.matrix_benchmarks as benchmarks
import dataward.plan.matrix_bound as module
from dataward.errors import SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.edge_bytes import edge_bytes
from dataward.plan.matrix_benchmarks import BenchmarkShape, Workload, benchmark_bound, fan_in_counts
from dataward.plan.matrix_bound import MatrixSettings, Reading, finish_times, matrix_bound
from plan.dags import a_workflow, dags

FREE = MatrixSettings(1, math.inf, 0.0, 0)


def by_definition(
    workflow: Workflow, waits: np.ndarray, moves: np.ndarray, task_move: float
) -> list[float]:
    """Section 3 word for word, with its p * p steps."""
    ends = [0.0] * len(workflow)
    for v in workflow.layers.order.tolist():
        first = workflow.parents.starts[v]
        parents = workflow.parents.row(v).tolist()
        move = {u: moves[first + i] for i, u in enumerate(parents)}
        ready = 0.0
        if parents:
            own_node = max(ends[u] + move[u] for u in parents)
            with_parent = min(
                max(ends[w] + (0.0 if w == u else move[w]) for w in parents) + task_move
                for u in parents
            )
            ready = min(own_node, with_parent)
        ends[v] = ready + waits[v] + workflow.runtime_seconds[v]
    return ends


def a_benchmark(shape: BenchmarkShape, workload: Workload, tasks: int) -> Workflow:
    """The workload as a real workflow, its numbers the same."""
    degree, runtimes = workload.degree, workload.runtimes(0, tasks)
    parents: dict[int, list[int]] = {i: [] for i in range(tasks)}
    for i in range(1, tasks):
        if shape is BenchmarkShape.PIPELINE and i % degree:
            parents[i] = [i - 1]
        elif shape is BenchmarkShape.FAN_OUT:
            parents[i] = [(i - 1) // degree]
        elif shape is BenchmarkShape.FAN_IN:
            parents[(i - 1) // degree].append(i)
    builder = WorkflowBuilder()
    for i, size in enumerate(workload.outputs(0, tasks).tolist()):
        builder.file(f"f{i}", int(size))
    for i in range(tasks):
        inputs = [f"f{p}" for p in parents[i]]
        builder.task(f"t{i}", inputs=inputs, outputs=[f"f{i}"], runtime_seconds=runtimes[i])
    return builder.build()


def test_a_bag_as_printed_ends_in_half_the_time_its_work_takes() -> None:
    workflow = a_workflow(*[(c, 2, "") for c in "abcdefgh"])

    printed = matrix_bound(workflow, 2, FREE)
    last = matrix_bound(workflow, 2, FREE, Reading.LEVEL_LAST)

    assert printed.makespan_seconds == 3 + 2  # k = 4: the average wait is (4 - 1) * 2 / 2
    assert printed.efficiency == 1.6
    assert last.makespan_seconds == 8
    assert last.tasks_per_second == last.efficiency == 1


def test_as_printed_every_task_of_a_path_waits_for_the_whole_workload() -> None:
    workflow = a_workflow(("a", 2, ""), ("b", 2, "a"), ("c", 2, "b"), ("d", 2, "c"))

    assert matrix_bound(workflow, 1, FREE).makespan_seconds == 4 * (3 + 2)
    assert matrix_bound(workflow, 1, FREE, Reading.LEVEL_LAST).makespan_seconds == 8


def test_on_the_fullest_node_there_is_more_to_do() -> None:
    workflow = a_workflow(*[(c, 2, "") for c in "abcdefgh"])

    one = matrix_bound(workflow, 1, FREE, Reading.LEVEL_FULLEST).makespan_seconds
    four = matrix_bound(workflow, 4, FREE, Reading.LEVEL_FULLEST).makespan_seconds

    assert one == pytest.approx(16)  # of one node, it is the fullest
    assert 4 < four < 16


def test_a_single_core_is_not_taken_for_a_whole_node() -> None:
    workflow = a_workflow(*[(c, 2, "") for c in "abcdefgh"])

    found = matrix_bound(workflow, 1, MatrixSettings(cores_per_node=2), Reading.LEVEL_FULLEST)

    assert found.makespan_seconds == pytest.approx(16)


def test_a_task_moves_to_the_parent_whose_data_would_arrive_last() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.file("y", 30)
    builder.task("a", outputs=["x"], runtime_seconds=1)
    builder.task("b", outputs=["y"], runtime_seconds=2)
    builder.task("c", inputs=["x", "y"], runtime_seconds=1)
    workflow = builder.build()

    def makespan(cores: int, **settings_: float) -> float:
        machine = MatrixSettings(
            cores_per_node=1, bandwidth_bytes_per_second=10.0, latency_seconds=0.0, **settings_
        )
        return matrix_bound(workflow, cores, machine).makespan_seconds

    assert makespan(3, task_bytes=5) == (2 + 3) + 0.5 + 1  # y to a's node, and c with it
    assert makespan(3, task_bytes=900) == (1 + 10) + 1  # too dear: both to a node of their own
    assert makespan(3, task_bytes=5, overhead_seconds=1.0) == (3 + 3) + 0.5 + 2
    assert makespan(1) == pytest.approx(2 + 4 / 3 * 2 + 1)  # one node: waits, but no moves


@pytest.mark.parametrize("cores", [0, -1])
def test_no_cores_are_refused(cores: int) -> None:
    with pytest.raises(SettingError):
        matrix_bound(a_workflow(("a", 1, "")), cores)
    with pytest.raises(SettingError):
        benchmark_bound(BenchmarkShape.BAG, cores)


@settings(max_examples=200, deadline=None)
@given(dags(files=True, most=10), st.sampled_from([0, 2, 48]), st.integers(0, 9), st.data())
def test_finish_times_are_those_of_the_formulas_word_for_word(
    workflow: Workflow, narrow: int, task_move: int, data: st.DataObject
) -> None:
    waits = np.array(data.draw(st.lists(st.integers(0, 9), min_size=10, max_size=10)), dtype=float)
    waits = waits[: len(workflow)]
    moves = edge_bytes(workflow) / 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NARROW", narrow)
        ends = finish_times(workflow, workflow.runtime_seconds, waits, moves, float(task_move))

    assert ends.tolist() == by_definition(workflow, waits, moves, float(task_move))


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(list(BenchmarkShape)),
    st.sampled_from(list(Reading)),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(2, 5),
    st.sampled_from([0.0, 1e-3, 0.05]),
)
def test_a_benchmark_has_the_bound_of_the_workflow_it_stands_for(
    shape: BenchmarkShape, reading: Reading, cores: int, per_core: int, degree: int, latency: float
) -> None:
    workload = Workload(tasks_per_core=per_core, degree=degree, seed=cores)
    machine = MatrixSettings(latency_seconds=latency)
    workflow = a_benchmark(shape, workload, cores * per_core)
    counts = np.diff(workflow.layers.starts)
    means = np.full(len(counts), 0.05)
    squares = np.full(len(counts), 0.1**2 / 3)
    waits = module.queue_waits(counts, means, squares, cores, 2, reading)
    moves = module.move_seconds(edge_bytes(workflow), cores, machine)
    task_move = float(module.move_seconds(np.array([100]), cores, machine)[0])
    ends = finish_times(
        workflow, workflow.runtime_seconds, waits[workflow.layers.level_of], moves, task_move
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmarks, "PIECE", 7)
        found = benchmark_bound(shape, cores, reading, machine, workload)

    assert found.makespan_seconds == pytest.approx(ends.max(), rel=1e-12)
    assert found.tasks_per_second == pytest.approx(cores * per_core / ends.max())


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(2, 12))
def test_fan_in_levels_are_counted_without_building_them(tasks: int, degree: int) -> None:
    heights = [0] * tasks
    for i in range(tasks - 1, 0, -1):
        heights[(i - 1) // degree] = max(heights[(i - 1) // degree], heights[i] + 1)

    assert fan_in_counts(tasks, degree).tolist() == np.bincount(heights).tolist()


def test_two_readings_of_the_published_bag() -> None:
    """At 1,024 cores instead of 128K: the same to a few tenths of a percent."""
    printed = benchmark_bound(BenchmarkShape.BAG, 1024)
    last = benchmark_bound(BenchmarkShape.BAG, 1024, Reading.LEVEL_LAST)

    assert printed.efficiency == pytest.approx(1.99, abs=0.01)
    assert last.efficiency == pytest.approx(1.0, abs=0.01)
