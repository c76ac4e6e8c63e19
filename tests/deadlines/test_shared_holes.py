"""When slots of one host are free together."""

from dataward.deadlines.local_schedule import Frame, TimeHole
from dataward.deadlines.shared_holes import SharedHole, best_shared_hole, shared_holes

WHOLE = [TimeHole(0.0, 100.0)]


def test_slots_are_free_together_where_their_holes_overlap() -> None:
    others = {1: [TimeHole(20.0, 50.0), TimeHole(70.0, 200.0)]}

    assert shared_holes(WHOLE, others, 1) == [
        SharedHole(20.0, 50.0, (1,)),
        SharedHole(70.0, 100.0, (1,)),
    ]


def test_the_same_slots_are_free_all_the_time() -> None:
    relayed = {1: [TimeHole(0.0, 60.0)], 2: [TimeHole(40.0, 100.0)]}

    assert shared_holes(WHOLE, relayed, 1) == [
        SharedHole(0.0, 60.0, (1,)),
        SharedHole(40.0, 100.0, (2,)),
    ]
    assert shared_holes(WHOLE, relayed, 2) == [SharedHole(40.0, 60.0, (2, 1))]


def test_what_lies_in_a_longer_time_is_left_out() -> None:
    others = {1: [TimeHole(0.0, 100.0)], 2: [TimeHole(30.0, 100.0)]}

    assert shared_holes(WHOLE, others, 1) == [SharedHole(0.0, 100.0, (1,))]


def test_nothing_is_shared_with_more_slots_than_there_are() -> None:
    assert shared_holes(WHOLE, {1: WHOLE, 2: []}, 2) == []


def test_the_smallest_time_that_serves_is_taken_within_the_frame() -> None:
    own = [TimeHole(0.0, 90.0), TimeHole(100.0, 130.0), TimeHole(140.0, 150.0)]
    others = {3: [TimeHole(0.0, 200.0)]}

    found = best_shared_hole(own, others, 1, Frame(10.0, 120.0), 15.0)

    assert found == SharedHole(100.0, 120.0, (3,))
    assert best_shared_hole(own, others, 1, Frame(10.0, 120.0), 81.0) is None
