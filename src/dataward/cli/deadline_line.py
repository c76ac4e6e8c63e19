"""Says in a few words how a run stands with its deadline, while it runs and at its end."""

from math import inf
from typing import Any

from dataward.errors import DeadlineRefusedError
from dataward.model.events import FinishPromised
from dataward.model.quantities import show_seconds
from dataward.reports.run_summary import RunSummary


def show_promise(promised: FinishPromised, now: float) -> str:
    """How long the promise still runs, such as ``promised in 4 min 05 s``."""
    left = promised.deadline - now
    if left < 0:
        return f"{show_seconds(-left)} after the deadline"
    what = "promised in" if promised.sure else "not promised: deadline in"
    return f"{what} {show_seconds(left)}"


def show_renewed(promised: FinishPromised) -> str:
    """What became of a promise that was broken on the way."""
    late = promised.finish - promised.deadline
    left = show_seconds(max(promised.finish - promised.at, 0.0))
    outcome = (
        f"it is promised in {left} only, {show_seconds(late)} after the deadline"
        if late > 0
        else f"the deadline is still promised, {promised.sure:.0%} sure"
    )
    return f"{promised.why}: what remains is allocated anew, and {outcome}"


def show_outcome(summary: RunSummary) -> str:
    """Whether a run that has ended kept its deadline; "" if it had none."""
    first = summary.promised_first
    if first is None:
        return ""
    seconds = show_seconds(abs(summary.late_seconds))
    if summary.late_seconds > 0:
        return f"late by {seconds}" + ("" if first.sure else "; nothing was promised")
    kept = "kept" if first.sure else "nothing was promised, but"
    return (
        f"{kept}: ended {seconds} before the deadline"
        if first.sure
        else (f"{kept} it ended {seconds} before the deadline")
    )


def outcome_as_json(summary: RunSummary) -> dict[str, Any] | None:
    first, last = summary.promised_first, summary.promised
    if first is None or last is None:
        return None
    return {
        "seconds": first.deadline,
        "promised": bool(first.sure),
        "sure": first.sure,
        "expected_seconds": first.expected,
        "is_renewed": last is not first,
        "finish_seconds": last.finish,
        "kept": summary.late_seconds <= 0,
        "late_seconds": summary.late_seconds,
    }


def refusal_as_json(error: DeadlineRefusedError) -> dict[str, Any]:
    """A refusal, for programs."""
    is_known = error.earliest_seconds < inf
    return {
        "state": "refused",
        "answer": str(error),
        "earliest_seconds": error.earliest_seconds if is_known else None,
        "critical_path_seconds": error.path_seconds or None,
        "unknown_types": list(error.unknown),
    }
