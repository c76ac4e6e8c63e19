"""The two workflows of the PeerComp paper: a fork-join and a Laplace equation solver.

The paper's text does not describe its figures, but its Table II gives the largest possible speed-up
of each: 3.3 is 10/3, eight equal tasks between a fork and a join; 1.8 is 9/5, a 3 x 3 diamond. So
all tasks take equally long. The paper treats transfers as negligible and gives no run time.
"""

from math import isqrt

from numpy.random import RandomState

from dataward.generate.shape import Draft, Parameter, Shape, Values

EQUAL_TASKS = (
    Parameter("seconds", 60.0, "run time of every task", low=0),
    Parameter("bytes", 1000, "size of every file", low=0, high=2**50),
)


def fill_fork_join(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    stages, seconds, size = int(values["stages"]), values["seconds"], int(values["bytes"])
    stages = min(stages, tasks // 3)
    middle = tasks - 2 * stages
    before: tuple[str, ...] = ()
    for stage in range(stages):
        width = middle * (stage + 1) // stages - middle * stage // stages
        forked = draft.file(f"forked_{stage:06d}.dat", size)
        draft.task("fork", seconds, before, (forked,))
        parts = [draft.file(f"part_{stage:06d}_{i:07d}.dat", size) for i in range(width)]
        for part in parts:
            draft.task("work", seconds, (forked,), (part,))
        before = (draft.file(f"joined_{stage:06d}.dat", size),)
        draft.task("join", seconds, parts, before)


def nearest_square(tasks: int, values: Values) -> int:
    side = isqrt(tasks)
    return side * side if tasks - side * side <= side else (side + 1) * (side + 1)


def fill_laplace(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    """Add a square of points; each waits for its upper and its left neighbour."""
    side, seconds, size = isqrt(tasks), values["seconds"], int(values["bytes"])
    above: list[str] = []
    for row in range(side):
        points = [draft.file(f"point_{row:05d}_{c:05d}.dat", size) for c in range(side)]
        for column, point in enumerate(points):
            inputs = above[column : column + 1] + points[max(0, column - 1) : column]
            draft.task("solve", seconds, inputs, (point,))
        above = points


FORK_JOIN = Shape(
    name="fork-join",
    description="one task forks, many work, one joins (PeerComp)",
    granularity="any number of tasks from 3",
    smallest=3,
    fill=fill_fork_join,
    parameters=(Parameter("stages", 1, "fork-joins one after the other", low=1), *EQUAL_TASKS),
)
LAPLACE = Shape(
    name="laplace",
    description="a Laplace solver's diamond: every point waits for two neighbours (PeerComp)",
    granularity="squares (9, 16, 25, ... 1024): the nearest is made",
    smallest=1,
    fill=fill_laplace,
    parameters=EQUAL_TASKS,
    nearest=nearest_square,
)
