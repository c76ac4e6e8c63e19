"""The examples of the HEFT and the PEFT paper: ten tasks on three processors, unlike each other.

Run times differ by task and processor there in no regular way, so they replace those that speeds
would give.
"""

from dataclasses import replace

import numpy as np

from dataward.model.builder import WorkflowBuilder
from dataward.plan.costs import Costs, costs_of
from plan.clusters import a_platform

Edges = dict[tuple[int, int], int]


def an_example(seconds: list[list[int]], edges: Edges) -> Costs:
    """Tasks t1, t2, ... with these run times on three nodes, and these bytes between them."""
    builder = WorkflowBuilder()
    for task in range(1, len(seconds) + 1):
        reads = [f"{a}-{b}" for a, b in edges if b == task]
        writes = [f"{a}-{b}" for a, b in edges if a == task]
        builder.task(f"t{task}", inputs=reads, outputs=writes, runtime_seconds=1.0)
    for (a, b), size in edges.items():
        builder.file(f"{a}-{b}", size)
    workflow = builder.build()
    costs = costs_of(workflow, a_platform((1, 1.0), (1, 1.0), (1, 1.0)), {})
    matrix = np.array(seconds, dtype=float)
    return replace(
        costs,
        kinds=np.arange(3, dtype=np.int32),
        seconds_on=lambda task: matrix[task],
        mean_seconds=matrix.mean(axis=1),
    )


# Topcuoglu, Hariri, Wu 2002: Figure 2, whose schedule by HEFT is Figure 3a.
HEFT_EXAMPLE = an_example(
    [
        [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
        [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
    ],
    {
        (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16,
        (3, 7): 23, (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11,
        (9, 10): 13,
    },
)  # fmt: skip

# Arabnejad, Barbosa 2014: Figure 1, with its table of optimistic costs and its schedules.
PEFT_EXAMPLE = an_example(
    [
        [22, 21, 36], [22, 18, 18], [32, 27, 43], [7, 10, 4], [29, 27, 35],
        [26, 17, 24], [14, 25, 30], [29, 23, 36], [15, 21, 8], [13, 16, 33],
    ],
    {
        (1, 2): 17, (1, 3): 31, (1, 4): 29, (1, 5): 13, (1, 6): 7, (2, 8): 3, (2, 9): 30,
        (3, 7): 16, (4, 8): 11, (4, 9): 7, (5, 9): 57, (6, 8): 5, (7, 10): 9, (8, 10): 42,
        (9, 10): 7,
    },
)  # fmt: skip
