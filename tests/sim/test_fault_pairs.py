"""Pairs of faults: all of them, each once, in an order of which any beginning is spread evenly."""

from itertools import islice

import pytest

from dataward.sim.fault_pairs import PairGroup, in_turn, pair_groups, single_faults, spread
from dataward.sim.script import PointFault, PointKind, Points, Track
from dataward.sim.small_worlds import SmallWorld, Tried, try_world

DIAMOND = SmallWorld("diamond", 2)
CALL, MESSAGE = Track(PointKind.CALL), Track(PointKind.MESSAGE)


def points(calls: int, messages: int = 0) -> Points:
    everywhere = dict.fromkeys((track.series for track in DIAMOND.tracks), 0)
    return {**everywhere, "calls": calls, "messages": messages}


def tried(fault: PointFault, struck: Points, ended: Points, problem: str = "") -> Tried:
    return Tried(DIAMOND, (fault,), problem, struck, ended)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13, 100, 1024, 5040])
def test_every_number_comes_once(count: int) -> None:
    assert sorted(spread(count)) == list(range(count))


@pytest.mark.parametrize("count", [1000, 1024, 5040])
@pytest.mark.parametrize("begun", [10, 50, 200])
def test_the_numbers_that_come_first_leave_no_large_gap(count: int, begun: int) -> None:
    first = sorted(islice(spread(count), begun))

    gaps = [b - a for a, b in zip([0, *first], [*first, count], strict=True)]
    assert max(gaps) <= 3 * count / begun


def test_the_second_fault_strikes_after_the_first() -> None:
    first = tried(PointFault(CALL, 2), points(2, 1), points(5, 3))

    group = PairGroup([first], CALL)

    assert [str(faults[1]) for _, faults in map(group.__getitem__, range(len(group)))] == [
        "call@3",
        "call@4",
        "call@5",
    ]
    assert len(PairGroup([first], MESSAGE)) == 2


def test_every_pair_comes_once_and_kinds_with_few_points_come_early() -> None:
    singles = [
        tried(PointFault(CALL, 1), points(1, 0), points(40, 2)),
        tried(PointFault(CALL, 2), points(2, 1), points(40, 2)),
    ]

    pairs = [faults for _, faults in in_turn(pair_groups(singles))]

    assert len(set(pairs)) == len(pairs)
    kinds = [faults[1].track.kind for faults in pairs]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        PointKind.CALL: 39 + 38,
        PointKind.ANSWER: 39 + 38,
        PointKind.MESSAGE: 2 + 1,
        PointKind.DOUBLE: 2 + 1,
        PointKind.REMOVE: 4 * (39 + 38),
        PointKind.LEAVE: 2 * (39 + 38),
        PointKind.JOIN: 39 + 38,
    }
    assert set(kinds[:15]) == set(kinds)
    assert PointKind.MESSAGE not in kinds[30:]


def test_what_failed_alone_is_in_no_pair() -> None:
    bad = tried(PointFault(CALL, 1), points(1), points(40), problem="it broke")

    assert pair_groups([bad]) == []
    assert single_faults(bad) == []


def test_a_pair_of_a_real_world_can_be_run() -> None:
    alone = single_faults(try_world(DIAMOND))
    singles = [try_world(world, faults) for world, faults in alone[::97]]

    pairs = islice(in_turn(pair_groups(singles)), 40)

    assert [one.problem for one in (try_world(*pair) for pair in pairs) if one.problem] == []
