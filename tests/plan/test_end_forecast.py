"""When a run ends, by estimates and by what it has measured; with a range, or not at all."""

from dataclasses import replace
from math import inf, isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward import WorkflowBuilder
from dataward.generate import generate
from dataward.model.remaining import Remaining, before_the_run
from dataward.model.workflow import Workflow
from dataward.plan import end_forecast
from dataward.plan.end_forecast import NO_TIME, EndForecast, either, forecast_end
from dataward.plan.estimates import EXACT, UNKNOWN, Estimated, Estimates, as_estimated
from dataward.plan.list_schedule import Resources

ONE_CORE = Resources(1, 1)


def tasks(**seconds: float) -> Workflow:
    """Tasks named as type_number, with these run times."""
    wf = WorkflowBuilder("tasks")
    for name, one in seconds.items():
        wf.task(name, name=name, runtime_seconds=one)
    return wf.build()


def equal_tasks(count: int, seconds: float) -> Workflow:
    return tasks(**{f"a_{number}": seconds for number in range(count)})


def known(workflow: Workflow, spread: float = 0.3, common: float = 0.0) -> Estimated:
    spreads = np.where(workflow.runtime_seconds > 0, spread, inf)
    return Estimated(workflow, spreads, common)


def forecast(estimated: Estimated, remaining: Remaining | None = None) -> EndForecast:
    found = forecast_end(estimated, remaining or before_the_run(estimated.workflow), ONE_CORE)
    assert found is not None
    return found


def after(workflow: Workflow, at: float, **measured: float) -> Remaining:
    """What remains of a run that has measured these tasks."""
    remaining = replace(before_the_run(workflow), at_seconds=at)
    for name, seconds in measured.items():
        task = workflow.index_of[name]  # type: ignore[index]
        remaining.is_open[task] = False
        remaining.measured_seconds[task] = seconds
    return remaining


# --- nothing to say ------------------------------------------------------------------------------


def test_nothing_is_left_of_a_run_that_is_done() -> None:
    workflow = tasks(a_1=1.0)

    assert forecast(known(workflow), after(workflow, 1.0, a_1=1.0)) == NO_TIME


def test_where_no_run_time_is_known_nothing_is_invented() -> None:
    workflow = tasks(a_1=0.0, b_1=0.0)

    assert forecast_end(known(workflow), before_the_run(workflow), ONE_CORE) is None


def test_where_nearly_nothing_is_known_nothing_is_said() -> None:
    workflow = tasks(a_1=1.0, **{f"b{number}_x": 0.0 for number in range(3)})

    assert forecast_end(known(workflow), before_the_run(workflow), ONE_CORE) is None


# --- before the run ------------------------------------------------------------------------------


def test_what_is_certain_has_a_narrow_range() -> None:
    found = forecast(as_estimated(equal_tasks(10, 5.0), EXACT, 0))

    assert found.seconds == pytest.approx(50.0, rel=0.1)
    assert found.low_seconds > 40
    assert found.high_seconds < 60


def test_the_range_grows_with_the_spread_and_more_if_tasks_have_errors_in_common() -> None:
    workflow = equal_tasks(50, 5.0)

    def width(spread: float, common: float) -> float:
        found = forecast(known(workflow, spread, common))
        return found.high_seconds - found.low_seconds

    assert width(0.1, 0.0) < width(0.3, 0.8) < width(1.0, 0.8)
    assert width(0.3, 0.0) < width(0.3, 0.8)


def test_estimates_that_only_errors_set_apart_are_drawn_together() -> None:
    truth = equal_tasks(400, 1.0)

    found = forecast(as_estimated(truth, Estimates(0.5), 1))

    # The sum of the estimates is 1.13 times that of the run times, and their mean error as much.
    assert found.low_seconds < 400 < found.high_seconds
    assert found.seconds == pytest.approx(400, rel=0.08)


def test_the_same_forecast_comes_twice_and_another_seed_gives_another() -> None:
    estimated = as_estimated(generate("montage", 60, 1), Estimates(0.5), 1)
    remaining = before_the_run(estimated.workflow)

    def made(seed: int) -> EndForecast | None:
        return forecast_end(estimated, remaining, ONE_CORE, seed)

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_many_tasks_are_bounded_and_not_all_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = as_estimated(generate("montage", 300, 1), Estimates(0.3), 1)
    resources = Resources(1, 8)
    remaining = before_the_run(estimated.workflow)
    scheduled = forecast_end(estimated, remaining, resources)
    assert scheduled is not None

    for limit, off in (("TASKS_SCHEDULED", 0.1), ("SCHEDULED_MAX", 0.25)):
        monkeypatch.setattr(end_forecast, limit, 100)
        bounded = forecast_end(estimated, remaining, resources)

        assert bounded is not None
        assert bounded.seconds == pytest.approx(scheduled.seconds, rel=off)


def test_if_either_of_two_may_come_the_range_holds_both() -> None:
    found = either(EndForecast(2.0, 1.0, 3.0), EndForecast(20.0, 10.0, 30.0))

    assert found == EndForecast(11.0, 1.0, 30.0)
    assert found.after(5.0) == EndForecast(16.0, 6.0, 35.0)
    assert found.holds(30.0)
    assert not found.holds(30.1)


# --- while it goes on ----------------------------------------------------------------------------


def test_a_machine_that_is_slow_today_is_slow_for_the_rest() -> None:
    workflow = equal_tasks(40, 1.0)
    measured = {f"a_{number}": 2.0 for number in range(10)}

    left = forecast(known(workflow, 0.3, 0.8), after(workflow, 20.0, **measured))

    assert left.seconds == pytest.approx(60.0, rel=0.1)


def test_a_type_that_was_not_known_is_learned() -> None:
    workflow = equal_tasks(40, 0.0)
    measured = {f"a_{number}": 3.0 for number in range(20)}

    left = forecast(known(workflow), after(workflow, 60.0, **measured))

    assert left.seconds == pytest.approx(60.0, rel=0.15)
    assert left.low_seconds <= 60.0 <= left.high_seconds


def test_a_running_task_has_less_left_and_an_overdue_one_still_takes_a_while() -> None:
    workflow = tasks(a_1=10.0)

    def left_after(seconds: float) -> float:
        remaining = replace(before_the_run(workflow), at_seconds=seconds)
        remaining.running[0] = seconds
        return forecast(known(workflow, 0.1), remaining).seconds

    assert left_after(5.0) == pytest.approx(5.0, rel=0.25)
    assert 0 < left_after(12.0) < 2.0
    assert left_after(100.0) > 0


def test_a_task_that_only_stores_its_outputs_takes_no_time() -> None:
    workflow = tasks(a_1=10.0, a_2=10.0)
    remaining = after(workflow, 20.0, a_1=10.0)
    remaining.ended.append(1)

    assert forecast(known(workflow), remaining).high_seconds == 0.0


# --- odd inputs ----------------------------------------------------------------------------------

A_TASK = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([0.0, 1e-6, 0.5, 3.0, 1e7]),  # the last is a giant
    st.integers(1, 9),
    st.sampled_from(["waits", "staging", "staged", "runs", "ended", "done"]),
    st.sampled_from([0.0, 0.1, 1.0, inf]),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(A_TASK, min_size=1, max_size=12), st.integers(1, 5), st.floats(0, 1))
def test_any_state_of_any_run_has_a_finite_range_or_none(
    drawn: list[tuple[str, float, int, str, float]], cores: int, common: float
) -> None:
    wf = WorkflowBuilder("odd")
    for number, (kind, seconds, width, _, _) in enumerate(drawn):
        above = [f"{drawn[number - 1][0]}_{number - 1}"] if number % 3 == 2 else []
        wf.task(f"{kind}_{number}", runtime_seconds=seconds, cores=width, after=above)
    workflow = wf.build()
    remaining = replace(before_the_run(workflow), at_seconds=7.0)
    for task, (_, _, _, state, _) in enumerate(drawn):
        remaining.is_open[task] = state != "done"
        remaining.measured_seconds[task] = 2.0 * (state == "done")
        if state in ("runs", "staging"):
            (remaining.running if state == "runs" else remaining.staging)[task] = float(task)
        elif state in ("ended", "staged"):
            (remaining.ended if state == "ended" else remaining.staged).append(task)
    spread = np.array([one[4] for one in drawn])
    spread[workflow.runtime_seconds == 0] = inf

    found = forecast_end(Estimated(workflow, spread, common), remaining, Resources(2, cores))

    if found is not None:
        assert 0 <= found.low_seconds <= found.seconds <= found.high_seconds
        assert isfinite(found.high_seconds)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([EXACT, UNKNOWN, Estimates(0.5), Estimates(10.0)]))
def test_any_estimates_give_a_range_or_none(seed: int, estimates: Estimates) -> None:
    estimated = as_estimated(generate("sipht", 40, seed), estimates, seed)

    found = forecast_end(estimated, before_the_run(estimated.workflow), Resources(4, 16), seed)

    assert found is None or 0 < found.low_seconds <= found.seconds <= found.high_seconds
