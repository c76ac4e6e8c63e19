import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataward.plan.adage as module
from builders import workflows
from dataward.errors import SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan, adage_plan, level_order_plan, lone_node_plan, random_plan
from dataward.plan.bounds import makespan_bounds
from dataward.plan.critical_path import latest_starts
from plan.dags import a_workflow, dags

Nodes = list[tuple[float, int, float]]  # bandwidth, cores, speed


def exhaustive_plan(
    workflow: Workflow, nodes: Nodes, located: dict[int, list[int]], respect_parents: bool
) -> tuple[list[int], list[float]]:
    """The same plan by its definition: every node weighed for every task."""
    latest = latest_starts(workflow)
    place = {t: i for i, t in enumerate(workflow.layers.order.tolist())}
    holds = {(f, n) for f, at in located.items() for n in at}
    free = [[0.0] * cores for _, cores, _ in nodes]
    preferred, ends = [-1] * len(workflow), [0.0] * len(workflow)
    for t in sorted(range(len(workflow)), key=lambda t: (latest[t], place[t])):
        width = int(workflow.cores[t])
        files = workflow.inputs.row(t).tolist()
        parents = workflow.parents.row(t).tolist() if respect_parents else []
        ready = max([ends[p] for p in parents], default=0.0)
        weighed = []
        for n, (bandwidth, cores, speed) in enumerate(nodes):
            if cores >= width:
                missing = sum(int(workflow.size_bytes[f]) for f in files if (f, n) not in holds)
                start = max(ready + missing / bandwidth, sorted(free[n])[width - 1])
                end = start + workflow.runtime_seconds[t] / speed
                weighed.append((end, missing, sorted(free[n])[width - 1], n))
        ends[t], _, _, n = min(weighed)
        preferred[t] = n
        free[n] = sorted(free[n])[width:] + [ends[t]] * width
        holds |= {(f, n) for f in [*files, *workflow.outputs.row(t).tolist()]}
    return preferred, ends


def plan_on(
    workflow: Workflow, nodes: Nodes, located: dict[int, list[int]], respect_parents: bool = True
) -> Plan:
    return adage_plan(
        workflow,
        len(nodes),
        bandwidth_bytes_per_second=[b for b, _, _ in nodes],
        cores=[c for _, c, _ in nodes],
        speed=[s for _, _, s in nodes],
        located=located,
        respect_parents=respect_parents,
    )


def a_join() -> Workflow:
    """Two tasks write 40 and 10 bytes for a third."""
    builder = WorkflowBuilder()
    builder.file("large", 40)
    builder.file("small", 10)
    builder.task("a", outputs=["large"], runtime_seconds=5)
    builder.task("b", outputs=["small"], runtime_seconds=5)
    builder.task("c", inputs=["large", "small"], runtime_seconds=1)
    return builder.build()


def test_a_task_goes_to_its_larger_input() -> None:
    plan = adage_plan(a_join(), 3, bandwidth_bytes_per_second=10.0)

    assert plan.preferred.tolist() == [0, 1, 0]
    assert plan.priority.tolist() == [0, 0, 5]
    assert plan.estimated_makespan_seconds == 5 + 1 + 1  # ends, 10 bytes, own run time


def test_a_task_that_is_kept_to_some_nodes_goes_to_the_best_of_them() -> None:
    plan = adage_plan(a_join(), 4, bandwidth_bytes_per_second=10.0, kept_to={2: [1, 3]})

    assert plan.preferred.tolist() == [0, 1, 1]
    assert plan.estimated_makespan_seconds == 5 + 4 + 1


def test_widely_copied_inputs_count_on_the_nodes_that_a_task_is_kept_to() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.task("a", inputs=["x"], runtime_seconds=1)
    located = {0: list(range(30))}

    plan = adage_plan(
        builder.build(), 40, bandwidth_bytes_per_second=10.0, located=located, kept_to={0: [35, 20]}
    )

    assert plan.preferred.tolist() == [20]
    assert plan.estimated_makespan_seconds == 1


def test_a_given_priority_is_the_order_in_which_nodes_are_chosen() -> None:
    workflow = a_workflow(("a", 5, ""), ("b", 3, ""))

    plan = adage_plan(workflow, 2, bandwidth_bytes_per_second=1.0, priority=np.array([1.0, 0.0]))

    assert plan.preferred.tolist() == [1, 0]
    assert plan.priority.tolist() == [1.0, 0.0]


def test_as_published_parents_take_no_time() -> None:
    plan = adage_plan(a_join(), 3, bandwidth_bytes_per_second=10.0, respect_parents=False)

    # On node 2, all 50 bytes are there after 5 s; on node 0 too its core is free only then.
    assert plan.preferred.tolist() == [0, 1, 0]
    assert plan.estimated_makespan_seconds == 6


def test_equal_ends_go_to_fewer_bytes_then_to_the_node_free_first_then_to_the_lowest_index() -> (
    None
):
    builder = WorkflowBuilder()
    builder.file("x", 10)
    builder.task("a", runtime_seconds=9)
    builder.task("b", inputs=["x"], runtime_seconds=1)
    workflow = builder.build()

    def preferred(located: dict[int, list[int]]) -> list[int]:
        plan = adage_plan(workflow, 4, bandwidth_bytes_per_second=np.inf, located=located)
        return plan.preferred.tolist()

    assert preferred({}) == [0, 1]
    assert preferred({0: [3]}) == [0, 3]
    assert preferred({0: [0, 3, 2]}) == [0, 2]


def test_a_wide_task_waits_for_enough_cores_on_one_node() -> None:
    workflow = a_workflow(("a", 9, ""), ("b", 5, ""), ("w", 1, ""), cores={"w": 2})

    plan = adage_plan(workflow, 2, cores=[1, 2], bandwidth_bytes_per_second=1.0)

    assert plan.preferred.tolist() == [0, 1, 1]
    assert plan.estimated_makespan_seconds == 9


def test_a_task_no_node_can_hold_is_refused() -> None:
    with pytest.raises(SettingError, match="needs 2 cores, but no node has more than 1"):
        adage_plan(a_workflow(("a", 1, ""), cores={"a": 2}), 3, bandwidth_bytes_per_second=1.0)


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        ({"nodes": 0}, "0 nodes can run nothing"),
        ({"cores": [1, 2, 3]}, "cores was given for 3 nodes, but there are 2"),
        ({"speed": [1.0, 0.0]}, "every node's speed must be above 0"),
        ({"located": {0: [5]}}, "file 0 cannot be on node 5"),
    ],
)
def test_impossible_clusters_are_refused(given_: dict[str, object], sentence: str) -> None:
    settings_ = {"nodes": 2, "bandwidth_bytes_per_second": 1.0, **given_}
    with pytest.raises(SettingError, match=sentence):
        adage_plan(a_join(), **settings_)  # type: ignore[arg-type]


@st.composite
def clusters(draw: st.DrawFn, alike: bool) -> Nodes:
    kinds = st.tuples(
        st.sampled_from([1.0, 4.0, 1e9]), st.integers(2, 3), st.sampled_from([0.5, 1.0, 2.0])
    )
    count = draw(st.integers(1, 6))
    return [draw(kinds)] * count if alike else draw(st.lists(kinds, min_size=count, max_size=count))


def placements(workflow: Workflow, nodes: Nodes) -> st.SearchStrategy[dict[int, list[int]]]:
    outside = np.flatnonzero(workflow.producers.degrees() == 0).tolist()
    if not outside:
        return st.just({})
    some = st.lists(st.integers(0, len(nodes) - 1), unique=True, max_size=len(nodes))
    return st.dictionaries(st.sampled_from(outside), some)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_no_node_left_unlooked_at_would_have_been_chosen(
    data: st.DataObject, alike: bool, respect_parents: bool
) -> None:
    workflow = data.draw(dags(files=True, cores_most=2, most=12))
    nodes = data.draw(clusters(alike))
    located = data.draw(placements(workflow, nodes))

    plan = plan_on(workflow, nodes, located, respect_parents)

    preferred, ends = exhaustive_plan(workflow, nodes, located, respect_parents)
    assert plan.preferred.tolist() == preferred
    assert plan.estimated_makespan_seconds == max(ends)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_of_one_widely_copied_input_the_holder_free_first_is_enough(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    nodes = data.draw(clusters(alike=False))
    builder = WorkflowBuilder()
    builder.file("common", data.draw(st.integers(0, 9)))
    for i in range(count):
        builder.file(f"own{i}", data.draw(st.integers(0, 9)))
        after = [f"t{p}" for p in range(i) if data.draw(st.integers(0, 4)) == 0]
        builder.task(
            f"t{i}",
            inputs=["common", f"own{i}"],
            runtime_seconds=data.draw(st.integers(0, 9)),
            cores=data.draw(st.integers(1, 2)),
            after=after,
        )
    workflow = builder.build()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_COPIES_FEW", 1)
        plan = plan_on(workflow, nodes, {})

    assert plan.preferred.tolist() == exhaustive_plan(workflow, nodes, {}, True)[0]


@settings(max_examples=100, deadline=None)
@given(dags(files=True, most=12), st.integers(1, 5))
def test_several_widely_copied_inputs_still_give_a_plan_in_which_parents_end_first(
    workflow: Workflow, count: int
) -> None:
    nodes: Nodes = [(4.0, 1, 1.0)] * count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_COPIES_FEW", 1)
        plan = plan_on(workflow, nodes, {})

    assert plan.estimated_makespan_seconds is not None
    assert plan.estimated_makespan_seconds >= latest_starts(workflow).max()
    assert ((plan.preferred >= 0) & (plan.preferred < count)).all()


def test_random_and_level_order_plans_follow_the_levels() -> None:
    workflow = a_workflow(("c", 1, "b"), ("b", 1, ""), ("a", 1, ""))

    level_order = level_order_plan(workflow, 2)
    drawn = random_plan(workflow, 2, seed=7)

    assert level_order.priority.tolist() == drawn.priority.tolist() == [2, 0, 1]
    assert level_order.preferred.tolist() == [0, 0, 1]
    assert level_order.estimated_makespan_seconds is None


def test_a_random_plan_is_its_seed() -> None:
    workflow = a_workflow(*[(c, 1, "") for c in "abcdefghijklmnop"])

    first, again = (random_plan(workflow, 100, seed=3).preferred.tolist() for _ in range(2))

    assert first == again
    assert first != random_plan(workflow, 100, seed=4).preferred.tolist()
    assert all(0 <= node < 100 for node in first)


def test_a_random_plan_that_knows_the_cores_puts_no_task_on_a_node_too_narrow_for_it() -> None:
    ids = "abcdefghijklmnop"
    workflow = a_workflow(*[(c, 1, "") for c in ids], cores=dict.fromkeys("abcdefgh", 2))
    narrow = random_plan(workflow, 4, seed=3).preferred

    preferred = random_plan(workflow, 4, seed=3, cores=[1, 2, 1, 4]).preferred

    assert set(preferred[:8].tolist()) == {1, 3}
    assert preferred[8:].tolist() == narrow[8:].tolist()
    kept = np.isin(narrow[:8], [1, 3])
    assert preferred[:8][kept].tolist() == narrow[:8][kept].tolist()
    with pytest.raises(SettingError, match="a task needs 2 cores"):
        random_plan(workflow, 2, seed=3, cores=[1, 1])


def two_tasks_with_large_inputs() -> Workflow:
    wf = WorkflowBuilder("large")
    for name in ("a", "b"):
        wf.file(f"{name}.in", 1000)
        wf.task(name, inputs=[f"{name}.in"], runtime_seconds=1.0)
    return wf.build()


def test_where_transfers_queue_large_inputs_go_over_different_links() -> None:
    workflow = two_tasks_with_large_inputs()

    queued = adage_plan(
        workflow, 2, bandwidth_bytes_per_second=100.0, cores=2, queue_transfers=True
    )
    side_by_side = adage_plan(workflow, 2, bandwidth_bytes_per_second=100.0, cores=2)

    assert sorted(queued.preferred.tolist()) == [0, 1]
    assert queued.estimated_makespan_seconds == 11.0
    assert side_by_side.preferred.tolist() == [0, 0]


def test_where_transfers_queue_one_link_brings_one_input_after_the_other() -> None:
    workflow = two_tasks_with_large_inputs()

    plan = adage_plan(workflow, 1, bandwidth_bytes_per_second=100.0, cores=2, queue_transfers=True)

    assert plan.estimated_makespan_seconds == 21.0


@given(workflows(max_tasks=10), st.integers(1, 4), st.integers(1, 3))
def test_where_transfers_queue_a_plan_is_never_more_hopeful(
    workflow: Workflow, nodes: int, cores: int
) -> None:
    plan = adage_plan(
        workflow, nodes, bandwidth_bytes_per_second=50.0, cores=cores, queue_transfers=True
    )

    assert plan.estimated_makespan_seconds is not None
    bounds = makespan_bounds(workflow, nodes=nodes, cores=cores, bandwidth_bytes_per_second=50.0)
    assert plan.estimated_makespan_seconds >= bounds.critical_path_seconds - 1e-9
    assert set(plan.preferred.tolist()) <= set(range(nodes))


@given(dags(cores_most=4, files=True), st.integers(1, 8))
def test_a_node_alone_gets_the_same_plan_without_it_being_worked_out(
    workflow: Workflow, cores: int
) -> None:
    if int(workflow.cores.max()) > cores:
        with pytest.raises(SettingError, match="a task needs"):
            lone_node_plan(workflow, cores)
        return

    plan = lone_node_plan(workflow, cores)

    whole = adage_plan(workflow, 1, bandwidth_bytes_per_second=1e9, cores=cores)
    assert plan.priority.tolist() == whole.priority.tolist()
    assert plan.preferred.tolist() == whole.preferred.tolist()
