"""Deadlines of simulated runs, from Python."""

import pytest

from dataward import generate, simulate
from dataward.errors import DeadlineRefusedError, SettingError
from dataward.generate.registry import SHAPES
from dataward.model.events import FinishPromised

STEP = 3  # families that are tried, one of so many


def earliest(shape: str, estimates: str = "exact", **asked: int) -> float:
    with pytest.raises(DeadlineRefusedError) as refused:
        simulate(generate(shape, 40), deadline=1e-4, estimates=estimates, **asked)
    return refused.value.earliest_seconds


@pytest.mark.parametrize("shape", list(SHAPES)[::STEP])
@pytest.mark.parametrize("nodes", [1, 3])
def test_the_earliest_promise_is_accepted_and_kept_if_estimates_are_exact(
    shape: str, nodes: int
) -> None:
    soonest = earliest(shape, nodes=nodes)

    report = simulate(generate(shape, 40), nodes=nodes, deadline=soonest + 1e-3)

    assert report.answer is not None
    assert report.answer.accepted is not None
    assert report.answer.accepted.sure == 1.0
    assert report.summary.strategy == "peercomp"
    assert report.summary.late_seconds <= 0


def test_rough_estimates_are_reserved_for() -> None:
    exact, rough = earliest("montage", nodes=2), earliest("montage", "0.5", nodes=2)

    report = simulate(generate("montage", 40), nodes=2, estimates="0.5", deadline=rough + 1e-3)

    assert rough > 1.05 * exact
    assert report.answer is not None
    assert report.answer.accepted is not None
    assert 0.9 <= report.answer.accepted.sure <= 0.99


def test_a_promise_that_stragglers_break_is_made_anew() -> None:
    workflow = generate("montage", 40)
    deadline = earliest("montage", nodes=2) + 1.0

    report = simulate(workflow, nodes=2, faults="slow=1.0", deadline=deadline, seed=1)

    made = [event for event in report.events() if isinstance(event, FinishPromised)]
    assert report.is_complete
    assert report.summary.late_seconds > 0
    assert len(made) > 1
    assert made[0].why == ""
    assert all("took longer than was reserved for it" in event.why for event in made[1:])
    assert made[-1].finish > made[0].finish


def test_best_effort_runs_what_cannot_be_promised() -> None:
    report = simulate(generate("montage", 40), nodes=2, deadline=1.0, best_effort=True)

    assert report.is_complete
    assert report.answer is not None
    assert report.answer.accepted is None
    assert report.summary.promised_first is not None
    assert report.summary.promised_first.sure == 0.0


def test_unknown_run_times_cannot_be_promised() -> None:
    with pytest.raises(DeadlineRefusedError, match="nothing is known of how long") as refused:
        simulate(generate("bag", 5), deadline="1h", estimates="unknown")

    assert refused.value.unknown


def test_only_peercomp_keeps_promises() -> None:
    with pytest.raises(SettingError, match="a deadline is kept by --strategy peercomp"):
        simulate(generate("bag", 5), deadline="1h", strategy="heft")
