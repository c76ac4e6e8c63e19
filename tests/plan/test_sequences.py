import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.critical_path import critical_path
from dataward.plan.sequences import decompose
from plan.dags import a_workflow, dags, length, paths


def eligible(workflow: Workflow, path: list[int], extracted: set[int]) -> bool:
    """Both properties of PeerComp's Fig. 2, for tasks not yet extracted."""
    if extracted & set(path):
        return False
    above = all(not extracted & set(workflow.parents.row(t).tolist()) for t in path[1:])
    below = all(not extracted & set(workflow.children.row(t).tolist()) for t in path[:-1])
    return above and below


def test_a_fork_join_is_one_long_sequence_and_one_for_each_other_branch() -> None:
    workflow = a_workflow(
        ("a", 1, ""), ("b", 5, "a"), ("c", 2, "a"), ("d", 1, "c"), ("e", 4, "a"), ("f", 1, "bde")
    )

    found = decompose(workflow)

    assert list(found.tasks.rows()) == [[0, 1, 5], [4], [2, 3]]
    assert found.seconds.tolist() == [7, 4, 3]
    assert found.stages.tolist() == [1, 2, 2]
    assert found.width == 2
    assert found.minimum_length_seconds == 7
    assert found.total_length_seconds == 14


def test_a_sequence_stops_where_an_extracted_task_is_touched() -> None:
    # b follows x, which is extracted first; so a - b - c breaks before b.
    workflow = a_workflow(("x", 9, ""), ("y", 9, "x"), ("a", 1, ""), ("b", 1, "ax"), ("c", 1, "b"))

    assert list(decompose(workflow).tasks.rows()) == [[0, 1], [3, 4], [2]]
    assert decompose(workflow).stages.tolist() == [1, 2, 3]


def test_separate_workflows_are_submitted_in_one_stage() -> None:
    assert decompose(a_workflow(("a", 1, ""), ("b", 2, ""))).stages.tolist() == [1, 1]


def test_own_durations_decide_what_is_long() -> None:
    workflow = a_workflow(("a", 1, ""), ("b", 5, "a"), ("c", 2, "a"))

    assert list(decompose(workflow, np.array([1.0, 1, 2])).tasks.rows()) == [[0, 2], [1]]


@settings(max_examples=300, deadline=None)
@given(dags(most=9))
def test_every_sequence_is_the_longest_eligible_path(workflow: Workflow) -> None:
    found = decompose(workflow)

    every = paths(workflow)
    extracted: set[int] = set()
    for path, seconds in zip(found.tasks.rows(), found.seconds, strict=True):
        assert path in every
        assert eligible(workflow, path, extracted)
        assert seconds == length(workflow, path)
        assert seconds == max(
            length(workflow, p) for p in every if eligible(workflow, p, extracted)
        )
        extracted |= set(path)
    assert sorted(found.tasks.targets.tolist()) == list(range(len(workflow)))
    assert found.minimum_length_seconds == critical_path(workflow).seconds


def longest_eligible(workflow: Workflow, extracted: set[int]) -> float:
    """The same as trying all paths, where there are too many: by dynamic programming."""
    parents, children = list(workflow.parents.rows()), list(workflow.children.rows())
    down: dict[int, float] = {}
    for t in workflow.layers.order[::-1].tolist():
        if t not in extracted:
            last = bool(extracted & set(children[t]))
            onward = [c for c in children[t] if not last and not extracted & set(parents[c])]
            down[t] = workflow.runtime_seconds[t] + max([down[c] for c in onward], default=0.0)
    return max(down.values())


@settings(max_examples=60, deadline=None)
@given(st.integers(10, 60), st.integers(0, 9999), st.sampled_from([0.05, 0.1, 0.3]))
def test_lengths_stay_right_after_many_cuts(count: int, seed: int, density: float) -> None:
    random = np.random.default_rng(seed)
    builder = WorkflowBuilder()
    for i in range(count):
        after = [f"t{p}" for p in range(max(i - 12, 0), i) if random.random() < density]
        builder.task(f"t{i}", runtime_seconds=float(random.integers(0, 20)), after=after)
    workflow = builder.build()

    found = decompose(workflow)

    extracted: set[int] = set()
    for path, seconds in zip(found.tasks.rows(), found.seconds, strict=True):
        assert eligible(workflow, path, extracted)
        assert seconds == longest_eligible(workflow, extracted)
        extracted |= set(path)


@settings(max_examples=100, deadline=None)
@given(dags(most=9))
def test_a_sequence_could_not_be_longer_in_tasks_either(workflow: Workflow) -> None:
    extracted: set[int] = set()
    for path in decompose(workflow).tasks.rows():
        for parent in workflow.parents.row(path[0]).tolist():
            assert not eligible(workflow, [parent, *path], extracted)
        for child in workflow.children.row(path[-1]).tolist():
            assert not eligible(workflow, [*path, child], extracted)
        extracted |= set(path)


@settings(max_examples=100, deadline=None)
@given(dags(most=9))
def test_a_stage_follows_those_it_depends_on(workflow: Workflow) -> None:
    found = decompose(workflow)
    number = np.empty(len(workflow), dtype=int)
    number[found.tasks.targets] = found.tasks.owners()

    for child, parent in zip(workflow.parents.owners(), workflow.parents.targets, strict=True):
        earlier, later = sorted((number[child], number[parent]))
        assert earlier == later or found.stages[earlier] < found.stages[later]
