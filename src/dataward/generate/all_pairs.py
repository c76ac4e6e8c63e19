"""All-pairs (MATRIX, section 4.1.2): compare every file of one set with every file of another.

The paper's 250,000 tasks take 100 ms each on two 12 MB files, 500 in each set. The paper names no
output; here each comparison writes one number.
"""

from itertools import product
from math import isqrt

from numpy.random import RandomState

from dataward.generate.shape import Draft, Parameter, Shape, Values

SECONDS = 0.1
FILE_BYTES = 12_000_000
RESULT_BYTES = 8


def rectangle(tasks: int) -> tuple[int, int]:
    """The sizes of the two sets, whose product is nearest to ``tasks``; at most 2 to 1.

    Of equally near products the larger is taken, then the one whose sides are more equal.
    """
    best = (isqrt(tasks), isqrt(tasks))
    for short in range(max(1, isqrt(tasks // 2)), isqrt(tasks) + 2):
        for long in {tasks // short, tasks // short + 1}:
            if short <= long <= 2 * short:
                best = min(best, (short, long), key=lambda sides: _distance(sides, tasks))
    return best


def _distance(sides: tuple[int, int], tasks: int) -> tuple[int, int, int]:
    short, long = sides
    return abs(short * long - tasks), -short * long, long - short


def nearest(tasks: int, values: Values) -> int:
    short, long = rectangle(tasks)
    return short * long


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    short, long = rectangle(tasks)
    left = [draft.file(f"a_{i:05d}.dat", FILE_BYTES) for i in range(short)]
    right = [draft.file(f"b_{j:05d}.dat", FILE_BYTES) for j in range(long)]
    cells = list(product(range(short), range(long)))
    if values["drawn"]:
        cells = [cells[place] for place in random.permutation(len(cells))]
    for i, j in cells:
        result = draft.file(f"cell_{i:05d}_{j:05d}.dat", RESULT_BYTES)
        draft.task("compare", SECONDS, (left[i], right[j]), (result,))


SHAPE = Shape(
    name="all-pairs",
    description="compare each file of one set with each of another (Falkon, MATRIX)",
    granularity="rectangles with sides at most 2 to 1: the nearest is made",
    smallest=1,
    fill=fill,
    parameters=(
        Parameter("drawn", 0, "1: pairs come in a drawn order; 0: row by row", low=0, high=1),
    ),
    nearest=nearest,
)
