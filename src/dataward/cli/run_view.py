"""Shows a run while it goes on; on stderr, so that results can be piped."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console

from dataward.cli.complaints import visible
from dataward.cli.deadline_line import show_renewed
from dataward.cli.forecast_line import show_forecast_of_run
from dataward.cli.output import stderr_console
from dataward.cli.run_line import log_line
from dataward.model.events import Event, FinishPromised
from dataward.plan.end_forecast import EndForecast
from dataward.reports.progress import RunProgress
from dataward.runs.watcher import ForecastLeft

if TYPE_CHECKING:
    from rich.live import Live

LINE_SECONDS = 5.0
SHORT_SECONDS = 1.5  # of a run that is over so soon, nobody needs a forecast
FORECAST_SECONDS = 1.0
FORECAST_SHARE = 0.01  # of the time: after a forecast of 0.1 s, the next comes 10 s later


class RunView:
    """A live picture on a terminal, a line every 5 s elsewhere, nothing if ``quiet``.

    Times are the events': seconds since the run began. If the terminal is gone, the view shows
    nothing more, and the run goes on.
    """

    def __init__(
        self,
        progress: RunProgress,
        *,
        quiet: bool = False,
        console: Console | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.progress = progress
        self._console = console or stderr_console()
        self._timer = timer  # for how long a forecast takes
        self._is_shown = not quiet
        self._forecast_left: ForecastLeft | None = None
        self._left: EndForecast | None = None  # as it was at ``_left_since``
        self._left_since = 0.0
        self._forecast_due = -math.inf
        self._line_due: float | None = None
        self._told: FinishPromised | None = None  # the last broken promise that was told of
        self._live: Live | None = None
        if not quiet and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = _live(self._console)

    def add(self, event: Event) -> None:
        self.progress.add(event)

    def foreseen(self, forecast: EndForecast | None, left: ForecastLeft) -> None:
        """Say how long the run should take, if that is known; ``left`` is asked from then on."""
        self._forecast_left = left
        if forecast is not None and forecast.high_seconds >= SHORT_SECONDS:
            self.say(f"should take {show_forecast_of_run(forecast)}")

    def refresh(self, now: float) -> None:
        """Show the present state; called several times a second."""
        if not self._is_shown:
            return
        self._tell_of_broken_promise()
        try:
            if self._live is not None:
                self._draw(self._live, now)
            else:
                self._print_line_if_due(now)
        except OSError:
            self._is_shown = False

    def _tell_of_broken_promise(self) -> None:
        promised = self.progress.promised
        if promised is not None and promised.why and promised is not self._told:
            self._told = promised
            self.say(show_renewed(promised))

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
        live.update(picture(self.progress, now, self._left_at(now), width, height), refresh=True)

    def _print_line_if_due(self, now: float) -> None:
        if self._line_due is None:
            self._line_due = now + LINE_SECONDS
        if now >= self._line_due:
            self._line_due = now + LINE_SECONDS
            line = log_line(self.progress, now, self._left_at(now))
            self._console.print(line, soft_wrap=True)

    def _left_at(self, now: float) -> EndForecast | None:
        """How long the run still takes by the last forecast, which may be a minute old."""
        if self._forecast_left is not None and now >= self._forecast_due:
            began = self._timer()
            self._left, self._left_since = self._forecast_left(now), now
            took = self._timer() - began
            self._forecast_due = now + max(FORECAST_SECONDS, took / FORECAST_SHARE)
        return self._left and self._left.left_after(now - self._left_since)


def _live(console: Console) -> "Live":
    """A picture on that terminal. What draws it is loaded here: without a terminal, nobody does."""
    from rich.live import Live

    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
