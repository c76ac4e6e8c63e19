"""Says in one line how far a run has come, for a log."""

from dataward.model.quantities import show_seconds
from dataward.reports.progress import RunProgress


def log_line(progress: RunProgress, now: float, eta_seconds: float | None) -> str:
    """A line such as ``12 of 300 done, 2 running, 0 failed, 35.2/s, about 8 s left``."""
    counts = progress.counts()
    skipped = f" ({counts.skipped:,} skipped)" if counts.skipped else ""
    pieces = [
        f"{counts.done:,} of {counts.tasks:,} done{skipped}",
        f"{counts.running:,} running",
        f"{counts.failed:,} failed",
        *([f"{counts.removed:,} removed"] if counts.removed else []),
        f"{progress.tasks_per_second(now):.1f}/s",
    ]
    if eta_seconds is not None:
        pieces.append(f"about {show_rough(eta_seconds)} left")
    return ", ".join(pieces)


def show_rough(seconds: float) -> str:
    """The duration without milliseconds, which a forecast does not have."""
    return f"{seconds:.0f} s" if seconds < 99.5 else show_seconds(seconds)
