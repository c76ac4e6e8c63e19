"""Where our strategy was found to be worst: it gets no worse there (docs/worst.md).

`worst_cases.json` has what `python -m bench.worst` found and, of each instance, the ratio of our
makespan to the best of the others that is reached now.
"""

from pathlib import Path

import msgspec
import pytest

from bench.worst.search import OTHERS, OURS, Found, makespan_seconds

FILE = Path(__file__).with_name("worst_cases.json")
CASES = msgspec.json.decode(FILE.read_bytes(), type=list[Found])
SLACK = 1.01


@pytest.mark.parametrize("case", CASES, ids=[f"worst-{n}" for n in range(1, len(CASES) + 1)])
def test_our_makespan_is_no_further_above_the_best_of_the_others(case: Found) -> None:
    ours = makespan_seconds(case.instance, OURS)

    best = min(makespan_seconds(case.instance, other) for other in OTHERS)

    assert ours <= SLACK * case.ratio * best
