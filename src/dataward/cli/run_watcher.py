"""Shows a run on the terminal: its preparation, its progress, and that it was asked to stop.

What draws is loaded when the run begins: before that, the processes that run tasks are started.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from dataward.cli.output import busy, counted, stderr_console

if TYPE_CHECKING:
    from dataward.cli.run_view import RunView
    from dataward.plan.end_forecast import EndForecast
    from dataward.reports.progress import RunProgress
    from dataward.runs.watcher import ForecastLeft

MANY_INPUTS = 1000  # fewer are checked so fast that no progress bar is needed
MANY_TASKS = 1000  # the workflow of fewer is written as fast


class RunWatcher:
    """Shows a run on stderr; nothing of it if ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._view: RunView | None = None

    def busy(self, what: str, tasks: int) -> AbstractContextManager[object]:
        return busy(what) if tasks > MANY_TASKS else nullcontext()

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        if count > MANY_INPUTS and not self._quiet:
            self._show_steps(steps, count)
        for _ in steps:
            pass

    def _show_steps(self, steps: Iterator[int], count: int) -> None:
        console = stderr_console()
        if console.is_terminal:
            from rich.progress import track

            for _ in track(steps, "looking at inputs", count, console=console, transient=True):
                pass

    def begin(self, progress: "RunProgress") -> None:
        from dataward.cli.run_view import RunView

        self._view = RunView(progress, quiet=self._quiet)

    def foreseen(self, forecast: "EndForecast | None", left: "ForecastLeft") -> None:
        if self._view is not None:
            self._view.foreseen(forecast, left)

    def refresh(self, now: float) -> None:
        if self._view is not None:
            self._view.refresh(now)

    def interrupted(self, running: int) -> None:
        if self._view is not None:
            what = f"{counted(running, 'running task')} may end; Ctrl-C again kills"
            self._view.say(f"stopping: {what if running else 'nothing is running'}")

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
