"""Small workflows for the plan's tests: by hand, and drawn by hypothesis."""

import numpy as np
from hypothesis import strategies as st

from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow


def a_workflow(*tasks: tuple[str, float, str], cores: dict[str, int] | None = None) -> Workflow:
    """Tasks as (id, run time, parents' ids as one string of letters)."""
    builder = WorkflowBuilder()
    for id, seconds, parents in tasks:
        builder.task(
            id, runtime_seconds=seconds, after=list(parents), cores=(cores or {}).get(id, 1)
        )
    return builder.build()


@st.composite
def dags(
    draw: st.DrawFn,
    most: int = 8,
    cores_most: int = 1,
    files: bool = False,
    whole: bool = True,
    seconds_least: int = 0,
) -> Workflow:
    """A random workflow whose indices are in no particular order."""
    count = draw(st.integers(1, most))
    names = draw(st.permutations(range(count)))
    seconds = st.integers(seconds_least, 6).map(float) if whole else st.floats(seconds_least, 10)
    builder = WorkflowBuilder()
    for at in range(draw(st.integers(0, 3)) if files else 0):
        builder.file(f"in{at}", draw(st.integers(0, 20)))
    outside = len(builder._sizes)
    ancestors = {
        place: [p for p in range(place) if draw(st.integers(0, 2)) == 0] for place in range(count)
    }
    for place in names:
        parents = ancestors[place]
        shared = [f"in{i}" for i in range(outside) if draw(st.booleans())]
        passed = [p for p in parents if files and draw(st.booleans())]
        if files:
            builder.file(f"out{place}", draw(st.integers(0, 20)))
        builder.task(
            f"t{place}",
            runtime_seconds=draw(seconds),
            cores=draw(st.integers(1, cores_most)),
            inputs=shared + [f"out{p}" for p in passed],
            outputs=[f"out{place}"] if files else [],
            after=[f"t{p}" for p in parents],
        )
    return builder.build()


def paths(workflow: Workflow) -> list[list[int]]:
    """Every path of one task or more."""
    found = []
    children = list(workflow.children.rows())
    stack = [[task] for task in range(len(workflow))]
    while stack:
        path = stack.pop()
        found.append(path)
        stack.extend([*path, child] for child in children[path[-1]])
    return found


def length(workflow: Workflow, path: list[int]) -> float:
    return float(np.sum(workflow.runtime_seconds[path]))
