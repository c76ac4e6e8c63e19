from hypothesis import given
from hypothesis import strategies as st

from dataward.model.events import Event, NodeLost, RunEnded
from dataward.reports.attempts import Attempt, AttemptBook, Step
from reports.runs import a_run, began, ended, runs, staged, writes


def steps_of(events: list[Event]) -> list[tuple[Step, float]]:
    steps: list[tuple[Step, float]] = []
    book = AttemptBook(lambda attempt, step, at: steps.append((step, at)))
    for event in events:
        book.add(event)
    return steps


def test_an_attempt_goes_through_its_steps() -> None:
    life = [began(0.0, "x", "a"), staged(0.0, "x", "a"), runs(1.0, "x", "a")]

    steps = steps_of([*life, writes(2.0, "x", "a"), ended(3.0, "x", "a")])

    assert steps == [
        (Step.BEGAN, 0.0),
        (Step.STAGED, 0.0),
        (Step.RAN, 1.0),
        (Step.WROTE, 2.0),
        (Step.ENDED, 3.0),
    ]


def test_one_that_runs_has_been_staged_even_if_nothing_said_so() -> None:
    steps = steps_of([began(0.0, "x", "a"), runs(1.0, "x", "a")])

    assert steps == [(Step.BEGAN, 0.0), (Step.STAGED, 1.0), (Step.RAN, 1.0)]


def test_what_is_told_twice_happens_once() -> None:
    life = [staged(1.0, "x", "a"), runs(1.0, "x", "a"), writes(1.0, "x", "a")]

    steps = steps_of([began(0.0, "x", "a"), *life, *life, ended(3.0, "x", "a"), *life])

    assert [step for step, _ in steps] == [*Step]


def test_what_nobody_began_is_passed_over() -> None:
    assert steps_of([staged(1.0, "x", "a"), runs(1.0, "x", "a"), ended(2.0, "x", "a")]) == []


@given(st.lists(st.floats(0, 100), min_size=5, max_size=5), st.sampled_from([RunEnded, NodeLost]))
def test_no_step_lasts_less_than_nothing_whatever_the_clocks_say(
    at: list[float], end: type[RunEnded] | type[NodeLost]
) -> None:
    over: list[Attempt] = []
    book = AttemptBook(
        lambda attempt, step, _: over.append(attempt) if step is Step.ENDED else None
    )

    book.add(began(at[0], "x", "a"))
    book.add(staged(at[1], "x", "a"))
    book.add(runs(at[2], "x", "a"))
    book.add(writes(at[3], "x", "a"))
    book.add(NodeLost(at[4], "a") if end is NodeLost else RunEnded(at[4], 0, 0, 0, 0))

    (attempt,) = over
    assert attempt.stage_in_seconds >= 0
    assert attempt.waiting_seconds >= 0
    assert attempt.running_seconds >= 0
    assert attempt.stage_out_seconds >= 0


def test_every_attempt_of_a_run_ends_once() -> None:
    steps = steps_of(a_run())

    assert sum(step is Step.BEGAN for step, _ in steps) == 6
    assert sum(step is Step.ENDED for step, _ in steps) == 6
