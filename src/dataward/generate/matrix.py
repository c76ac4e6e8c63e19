"""The four benchmark workloads of MATRIX (section 4.2): bag of tasks, fan-in, fan-out, pipeline.

Numbers are from its Table 3: run times uniform over 0 to 100 ms, outputs uniform over 0 to 10 MB,
degrees and pipe size 10. A task reads the whole output of each parent.
"""

import numpy as np
from numpy.random import RandomState

from dataward.generate.shape import Draft, Parameter, Shape, Values

SECONDS_MAX = 0.1
BYTES_MAX = 10_000_000


def _fill(draft: Draft, kind: str, random: RandomState, parents: list[tuple[int, ...]]) -> None:
    """Add a task for each entry of ``parents``, which lists tasks of lower number."""
    count = len(parents)
    run_times = np.round(random.random_sample(count) * SECONDS_MAX, 6).tolist()
    out_bytes = random.randint(0, BYTES_MAX + 1, count, dtype=np.int64).tolist()
    outputs = [draft.file(f"out_{i:07d}.dat", size) for i, size in enumerate(out_bytes)]
    for i, mine in enumerate(parents):
        inputs = [outputs[parent] for parent in mine]
        draft.task(kind, run_times[i], inputs, outputs[i : i + 1])


def fill_bag(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    _fill(draft, "bag", random, [()] * tasks)


def fill_fan_out(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    degree = int(values["degree"])
    _fill(draft, "fan-out", random, [(), *(((i - 1) // degree,) for i in range(1, tasks))])


def fill_fan_in(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    """Add the fan-out tree with its edges reversed, so that the root comes last."""
    degree, last = int(values["degree"]), tasks - 1
    parents = []
    for i in range(tasks):
        first = degree * (last - i) + 1
        parents.append(tuple(last - j for j in range(first, min(first + degree, tasks))))
    _fill(draft, "fan-in", random, parents)


def fill_pipeline(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    pipe = int(values["pipe"])
    _fill(draft, "pipeline", random, [(i - 1,) if i % pipe else () for i in range(tasks)])


BAG = Shape(
    name="bag",
    description="independent tasks (MATRIX's bag of tasks)",
    granularity="any number of tasks",
    smallest=1,
    fill=fill_bag,
)
FAN_IN = Shape(
    name="fan-in",
    description="a tree from its leaves to its root (MATRIX)",
    granularity="any number of tasks; the deepest level is as full as the number allows",
    smallest=1,
    fill=fill_fan_in,
    parameters=(Parameter("degree", 10, "parents a task has at most", low=1),),
)
FAN_OUT = Shape(
    name="fan-out",
    description="a tree from its root to its leaves (MATRIX)",
    granularity="any number of tasks; the deepest level is as full as the number allows",
    smallest=1,
    fill=fill_fan_out,
    parameters=(Parameter("degree", 10, "children a task has at most", low=1),),
)
PIPELINE = Shape(
    name="pipeline",
    description="many chains side by side (MATRIX)",
    granularity="any number of tasks; the last chain may be shorter",
    smallest=1,
    fill=fill_pipeline,
    parameters=(Parameter("pipe", 10, "tasks in a chain", low=1),),
)
