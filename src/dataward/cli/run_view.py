"""Shows a run while it goes on; on stderr, so that results can be piped."""

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console

from dataward.cli.complaints import visible
from dataward.cli.output import stderr_console
from dataward.cli.run_line import log_line
from dataward.model.events import Event
from dataward.reports.progress import RunProgress

if TYPE_CHECKING:
    from rich.live import Live

LINE_SECONDS = 5.0
FORECAST_SECONDS = 1.0  # a forecast looks at all tasks, too slow for four times a second


class RunView:
    """A live picture on a terminal, a line every 5 s elsewhere, nothing if ``quiet``.

    Times are the events': seconds since the run began. If the terminal is gone, the view shows
    nothing more, and the run goes on.
    """

    def __init__(
        self, progress: RunProgress, *, quiet: bool = False, console: Console | None = None
    ) -> None:
        self.progress = progress
        self._console = console or stderr_console()
        self._is_shown = not quiet
        self._forecast: float | None = None
        self._forecast_due = -math.inf
        self._line_due: float | None = None
        self._live: Live | None = None
        if not quiet and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = _live(self._console)

    def add(self, event: Event) -> None:
        self.progress.add(event)

    def refresh(self, now: float) -> None:
        """Show the present state; called several times a second."""
        if not self._is_shown:
            return
        try:
            if self._live is not None:
                self._draw(self._live, now)
            else:
                self._print_line_if_due(now)
        except OSError:
            self._is_shown = False

    def say(self, sentence: str) -> None:
        """Print a line that stays, above the picture. Another console would garble the picture."""
        if self._is_shown:
            with suppress(OSError):
                self._console.print(visible(sentence), soft_wrap=True)

    def close(self) -> None:
        """Leave the terminal as it was; safe to call again."""
        self._is_shown = False
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def _draw(self, live: "Live", now: float) -> None:
        from dataward.cli.run_picture import picture

        if not live.is_started:
            live.start()
        width, height = self._console.size
        eta_seconds = self._eta_seconds(now)
        live.update(picture(self.progress, now, eta_seconds, width, height), refresh=True)

    def _print_line_if_due(self, now: float) -> None:
        if self._line_due is None:
            self._line_due = now + LINE_SECONDS
        if now >= self._line_due:
            self._line_due = now + LINE_SECONDS
            line = log_line(self.progress, now, self._eta_seconds(now))
            self._console.print(line, soft_wrap=True)

    def _eta_seconds(self, now: float) -> float | None:
        if now >= self._forecast_due:
            self._forecast_due = now + FORECAST_SECONDS
            self._forecast = self.progress.eta_seconds(now)
        return self._forecast


def _live(console: Console) -> "Live":
    """A picture on that terminal. What draws it is loaded here: without a terminal, nobody does."""
    from rich.live import Live

    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
