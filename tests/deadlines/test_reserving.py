from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import a_diamond, workflows
from dataward.deadlines.admission import WantedPromise
from dataward.deadlines.reserving import ReservedTimes, TaskPlace, reserved_times
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Workflow
from dataward.plan.estimates import Estimated


def reserved(workflow: Workflow, spread: float, common: float = 0.0) -> ReservedTimes:
    sigma = np.where(workflow.runtime_seconds > 0, spread, inf)
    known = Estimated(workflow, sigma if spread else np.zeros(len(workflow)), common)
    return reserved_times(WantedPromise(known, before_the_run(workflow)))


def one_after_the_other(times: ReservedTimes) -> list[TaskPlace]:
    """All tasks in one slot, without a pause."""
    placed, now = {}, 0.0
    for task in times.work.order:
        now += times.seconds[task]
        placed[task] = TaskPlace((0,), now, times.seconds[task])
    return [placed[task] for task in range(len(placed))]


@given(workflows())
def test_exact_run_times_are_reserved_as_they_are(workflow: Workflow) -> None:
    times = reserved(workflow, 0.0)

    assert times.seconds == workflow.runtime_seconds.tolist()
    assert times.outline().work == times.seconds
    ends = times.ends(one_after_the_other(times), 0.0)
    assert times.sure(ends, sum(times.seconds) + 1e-6) == 1.0


def test_rough_estimates_are_reserved_for_their_spread() -> None:
    exact, rough = reserved(a_diamond(), 0.0), reserved(a_diamond(), 0.5, common=0.8)

    assert all(1.2 < r / e < 2.5 for e, r in zip(exact.seconds, rough.seconds, strict=True))


@given(st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.8, 1.0]))
def test_nine_promises_of_ten_hold_if_tasks_have_no_more_time_than_is_reserved(
    spread: float, common: float
) -> None:
    times = reserved(a_diamond(), spread, common)

    sure = times.sure(times.ends(one_after_the_other(times), 0.0), sum(times.seconds))

    assert 0.85 <= sure < 1.0
