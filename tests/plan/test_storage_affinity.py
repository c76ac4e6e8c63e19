"""Storage affinity's plan: tasks go, one by one, where most of their input bytes are."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.storage_affinity import storage_affinity_plan
from plan.dags import dags

Placed = list[tuple[int, int]]  # tasks and their nodes, in the order of assignment


def naive(workflow: Workflow, cores: Sequence[int], located: Mapping[int, Sequence[int]]) -> Placed:
    """The same, with every affinity computed anew for every step."""
    parents = list(workflow.parents.rows())
    reads, writes = list(workflow.inputs.rows()), list(workflow.outputs.rows())
    level_order = workflow.layers.order.tolist()
    held = [{file for file, nodes in located.items() if at in nodes} for at in range(len(cores))]
    tasks = [0] * len(cores)
    placed: Placed = []
    while len(placed) < len(workflow):
        done = {task for task, _ in placed}
        pairs = [
            (
                -sum(int(workflow.size_bytes[file]) for file in reads[task] if file in held[node]),
                level_order.index(task),
                tasks[node] / cores[node],
                node,
                task,
            )
            for task in range(len(workflow))
            if task not in done and done.issuperset(parents[task])
            for node in range(len(cores))
            if cores[node] >= workflow.cores[task]
        ]
        *_, node, task = min(pairs)
        held[node] |= {*reads[task], *writes[task]}
        tasks[node] += 1
        placed.append((task, node))
    return placed


def planned(
    workflow: Workflow, cores: Sequence[int], located: Mapping[int, Sequence[int]] | None = None
) -> Placed:
    plan = storage_affinity_plan(workflow, cores, located or {})
    order = sorted(range(len(workflow)), key=lambda task: plan.priority[task])
    return [(task, int(plan.preferred[task])) for task in order]


@st.composite
def bags(draw: st.DrawFn) -> Workflow:
    """Independent tasks that share files, some of them empty."""
    builder = WorkflowBuilder()
    files = [f"f{i}" for i in range(draw(st.integers(1, 6)))]
    for file in files:
        builder.file(file, draw(st.integers(0, 3)))
    for task in range(draw(st.integers(1, 10))):
        builder.task(f"t{task}", inputs=sorted(draw(st.sets(st.sampled_from(files)))))
    return builder.build()


@given(
    workflow=st.one_of(bags(), dags(most=10, files=True, cores_most=2)),
    cores=st.lists(st.integers(2, 4), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=400)
def test_it_is_what_computing_every_affinity_anew_gives(
    workflow: Workflow, cores: list[int], data: st.DataObject
) -> None:
    some_nodes = st.sets(st.integers(0, len(cores) - 1), max_size=3).map(sorted)
    inputs = [file for file, by in enumerate(workflow.producers.rows()) if not by]
    located = {file: data.draw(some_nodes) for file in inputs if data.draw(st.booleans())}

    assert planned(workflow, cores, located) == naive(workflow, cores, located)


def a_bag(sizes: Mapping[str, int], *tasks: str) -> Workflow:
    """A task for each string, which names its inputs by letters."""
    builder = WorkflowBuilder()
    for file, size in sizes.items():
        builder.file(file, size)
    for number, files in enumerate(tasks):
        builder.task(f"t{number}", inputs=list(files))
    return builder.build()


def test_tasks_that_share_files_go_to_one_node_and_others_elsewhere() -> None:
    workflow = a_bag(dict.fromkeys("abcdef", 10), "ab", "ef", "bc", "cd")

    assert planned(workflow, [1, 1]) == [(0, 0), (2, 0), (3, 0), (1, 1)]


def test_bytes_count_not_files() -> None:
    workflow = a_bag({"a": 10, "b": 10, "c": 100}, "abc")

    assert planned(workflow, [1, 1], {0: [0], 1: [0], 2: [1]}) == [(0, 1)]


def test_what_a_parent_writes_is_at_the_parents_node() -> None:
    builder = WorkflowBuilder()
    for file, size in (("a", 1), ("b", 1), ("big", 100), ("small", 5)):
        builder.file(file, size)
    builder.task("one", inputs=["a"], outputs=["small"])
    builder.task("other", inputs=["b"], outputs=["big"])
    builder.task("child", inputs=["small", "big"])
    workflow = builder.build()

    assert planned(workflow, [1, 1]) == [(0, 0), (1, 1), (2, 1)]


def test_a_node_with_more_cores_is_given_more_of_what_has_no_affinity() -> None:
    workflow = a_bag(dict.fromkeys("abcd", 10), *"abcd")

    assert [node for _, node in planned(workflow, [1, 3])] == [0, 1, 1, 1]


def test_a_task_goes_only_where_there_are_cores_enough() -> None:
    builder = WorkflowBuilder()
    builder.file("a", 10)
    builder.task("wide", inputs=["a"], cores=2)

    assert planned(builder.build(), [1, 2], {0: [0]}) == [(0, 1)]
    with pytest.raises(SettingError, match="needs 2 cores"):
        planned(builder.build(), [1, 1])


def test_places_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingError, match="does not exist"):
        planned(a_bag({"a": 1}, "a"), [1], {0: [1]})


def test_a_strip_of_sky_is_one_nodes() -> None:
    workflow = generate("coadd", 240, strips=4)

    placed = dict(planned(workflow, [1] * 4))

    assert [len({placed[task] for task in range(strip, 240, 4)}) for strip in range(4)] == [1] * 4
    assert len(set(placed.values())) == 4
