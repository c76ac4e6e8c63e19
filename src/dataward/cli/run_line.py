"""Says in one line how far a run has come, for a log."""

from dataward.cli.deadline_line import show_promise
from dataward.cli.forecast_line import show_left
from dataward.plan.end_forecast import EndForecast
from dataward.reports.progress import RunProgress


def log_line(progress: RunProgress, now: float, left: EndForecast | None) -> str:
    """A line such as ``12 of 300 done, 2 running, 0 failed, 35.2/s, about 8.0 s left``."""
    counts = progress.counts()
    skipped = f" ({counts.skipped:,} skipped)" if counts.skipped else ""
    pieces = [
        f"{counts.done:,} of {counts.tasks:,} done{skipped}",
        f"{counts.running:,} running",
        f"{counts.failed:,} failed",
        *([f"{counts.removed:,} removed"] if counts.removed else []),
        f"{progress.tasks_per_second(now):.1f}/s",
    ]
    if left is not None:
        pieces.append(show_left(left))
    if progress.promised is not None:
        pieces.append(show_promise(progress.promised, now))
    return ", ".join(pieces)
