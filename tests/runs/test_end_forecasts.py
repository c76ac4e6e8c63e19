"""Forecasts of runs on this machine, from what earlier runs have measured."""

from dataward import WorkflowBuilder
from dataward.live.slice import Slice
from dataward.model.workflow import Workflow
from dataward.plan.critical_path import critical_path
from dataward.reports.progress import RunProgress
from dataward.runs.end_forecasts import forecast_before, forecaster_of
from dataward.runs.known_times import estimated_from
from dataward.runs.outcomes import Outcome
from reports.lives import ran


def a_chain() -> Workflow:
    wf = WorkflowBuilder("chain")
    for number in range(4):
        after = [f"t_{number - 1}"] if number else []
        wf.task(f"t_{number}", name=f"t_{number}", after=after)
    return wf.build()


BEFORE = {f"t_{number}": Outcome("", (), (), seconds=10.0) for number in range(4)}


def test_what_ran_before_takes_about_as_long_again() -> None:
    known = estimated_from(a_chain(), BEFORE)  # type: ignore[arg-type]

    found = forecast_before(known, [0, 1, 2, 3], [], Slice(1, 2))

    assert found is not None
    assert found.low_seconds < critical_path(known.workflow).seconds == 40.0 < found.high_seconds


def test_short_tasks_take_longer_than_they_run_only_if_they_have_files() -> None:
    ids = [f"t_{number}" for number in range(10_000)]
    before = {id: Outcome("", (), (), seconds=0.001) for id in ids}
    seconds = []
    for outputs in (False, True):
        wf = WorkflowBuilder("short")
        for id in ids:
            wf.task(id, name="short", outputs=[f"{id}.out"] if outputs else [])
        known = estimated_from(wf.build(), before)  # type: ignore[arg-type]
        found = forecast_before(known, [*range(10_000)], [], Slice(1, 2))
        assert found is not None
        seconds.append(found.seconds)

    without, with_files = seconds
    assert without < 2 * 10_000 * 0.001 / 2
    assert with_files > 3 * without


def test_tasks_that_run_perhaps_widen_the_range() -> None:
    known = estimated_from(a_chain(), BEFORE)  # type: ignore[arg-type]

    due = forecast_before(known, [0], [], Slice(1, 2))
    perhaps = forecast_before(known, [0], [1, 2, 3], Slice(1, 2))

    assert due is not None
    assert perhaps is not None
    assert perhaps.low_seconds == due.low_seconds
    assert perhaps.high_seconds > 40.0


def test_what_a_run_has_done_is_not_left() -> None:
    progress = RunProgress(a_chain())
    forecaster = forecaster_of(a_chain(), BEFORE, Slice(1, 2), progress)  # type: ignore[arg-type]
    whole = forecaster.left(0.0)
    for task in ("t_0", "t_1"):
        for event in ran(task, 10.0, 10.0):
            progress.add(event)

    rest = forecaster.left(20.0)

    assert whole is not None
    assert rest is not None
    assert rest.high_seconds < whole.seconds


def test_of_a_first_run_without_run_times_nothing_is_said() -> None:
    known = estimated_from(a_chain(), {})

    assert forecast_before(known, [0, 1, 2, 3], [], Slice(1, 2)) is None
    assert forecast_before(known, [0], [1, 2, 3], Slice(1, 2)) is None
