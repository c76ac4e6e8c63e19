import pytest

from dataward.node.pace import MachinePace


def a_pace(*trials: float) -> MachinePace:
    pace = MachinePace()
    for seconds in trials:
        pace.note(seconds)
    return pace


@pytest.mark.parametrize(
    ("trials", "slowness"),
    [
        ((), 1.0),
        ((5.0,), 1.0),
        ((1.0, 2.9, 2.9), 1.0),
        ((1.0, 3.0, 3.0), 3.0),
        ((1.0, 5.0, 4.0), 4.0),
        ((2.0, 1.0, 5.0, 5.0), 5.0),
        ((5.0, 5.0, 1.0), 1.0),
    ],
)
def test_a_machine_is_as_slow_as_the_better_of_two_trials_beside_the_best(
    trials: tuple[float, ...], slowness: float
) -> None:
    pace = a_pace(*trials)

    assert pace.slowness == slowness
    assert pace.is_slow == (slowness > 1.0)


def test_one_trial_that_was_disturbed_says_nothing() -> None:
    assert not a_pace(1.0, 50.0).is_slow
    assert not a_pace(1.0, 50.0, 1.0, 50.0).is_slow


def test_after_one_quick_trial_a_machine_is_not_slow_any_more() -> None:
    assert a_pace(1.0, 5.0, 5.0).is_slow
    assert not a_pace(1.0, 5.0, 5.0, 1.2).is_slow


def test_only_a_trial_that_differs_from_what_was_known_is_made_again_soon() -> None:
    pace = MachinePace()

    assert [pace.note(seconds) for seconds in (1.0, 1.0, 5.0, 5.0, 5.0, 1.0, 1.0)] == [
        False, False, True, False, False, False, False,
    ]  # fmt: skip
