"""Says what a cluster has promised of a run, and whether the promise was kept."""

from datetime import datetime
from typing import Any

from dataward.model.deadline import show_moment
from dataward.model.members import ClusterRun, RunPromise
from dataward.model.quantities import show_seconds
from dataward.model.states import RunState


def words_about_promise(run: ClusterRun, now: float) -> str:
    """As ``promised by 17:12 (98% sure)``; "" if nobody has asked for a deadline.

    A run that was submitted with ``--best-effort`` and never promised has no part.
    """
    promise = run.promise
    if promise is None:
        return ""
    if run.state is not RunState.RUNNING:
        return _words_at_the_end(run, promise)
    if promise.broken and promise.sure:
        then = f"now promised by {_moment(promise.finish, now)}"
    elif promise.broken:
        then = f"as well as it can, deadline {_moment(promise.deadline, now)}"
    else:
        return f"promised by {_moment(promise.finish, now)} ({promise.sure:.0%} sure)"
    return f"promise broken: {promise.broken}; {then}" if promise.part else then


def _words_at_the_end(run: ClusterRun, promise: RunPromise) -> str:
    late = promise.late_seconds(run.ended_at)
    if run.state is not RunState.COMPLETE:
        return "with a deadline"
    if late:
        return f"late by {show_seconds(late)}"
    return f"in time, {show_seconds(promise.deadline - run.ended_at)} before its deadline"


def promise_as_json(run: ClusterRun) -> dict[str, Any] | None:
    """Times are seconds since 1970, by the store's clock."""
    promise = run.promise
    if promise is None:
        return None
    is_over = run.state is not RunState.RUNNING
    late = promise.late_seconds(run.ended_at) if is_over else None
    return {
        "deadline": promise.deadline,
        "finish": promise.finish or None,
        "sure": promise.sure or None,
        "broken": promise.broken,
        "late_seconds": late,
        "kept": run.state is RunState.COMPLETE and not late if is_over else None,
    }


def _moment(seconds: float, now: float) -> str:
    zone = datetime.now().astimezone().tzinfo
    return show_moment(datetime.fromtimestamp(seconds, zone), datetime.fromtimestamp(now, zone))
