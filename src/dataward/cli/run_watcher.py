"""Shows a run on the terminal: its preparation, its progress, and that it was asked to stop."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from dataward.cli.output import busy, counted, stderr_console
from dataward.cli.run_view import RunView
from dataward.reports.progress import RunProgress

MANY_INPUTS = 1000  # fewer are checked so fast that no progress bar is needed


class RunWatcher:
    """Shows a run on stderr; nothing of it if ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._view: RunView | None = None

    def busy(self, what: str) -> AbstractContextManager[None]:
        return busy(what)

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        console = stderr_console()
        if count > MANY_INPUTS and console.is_terminal and not self._quiet:
            from rich.progress import track

            for _ in track(steps, "looking at inputs", count, console=console, transient=True):
                pass
        for _ in steps:
            pass

    def begin(self, progress: RunProgress) -> None:
        self._view = RunView(progress, quiet=self._quiet)

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
