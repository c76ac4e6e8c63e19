"""Whoever watches a run, told how it goes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from dataward.plan.end_forecast import EndForecast
from dataward.reports.progress import RunProgress

ForecastLeft = Callable[[float], EndForecast | None]
"""How long a run still takes, at a time; None if too little is known."""


class Watcher(Protocol):
    """Whoever shows how a run goes."""

    def busy(self, what: str, tasks: int) -> AbstractContextManager[object]:
        """Something is done within this context that takes a while if there are many tasks."""
        ...

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        """Take so many steps, and show how far they are."""
        ...

    def begin(self, progress: RunProgress) -> None:
        """The run begins; ``progress`` always tells how far it is."""
        ...

    def foreseen(self, forecast: EndForecast | None, left: ForecastLeft) -> None:
        """Tasks are about to run, and should take so long; ``left`` tells it again later."""
        ...

    def refresh(self, now: float) -> None: ...

    def interrupted(self, running: int) -> None:
        """The run was asked to stop; so many tasks are running."""
        ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def busy(self, what: str, tasks: int) -> AbstractContextManager[object]:
        return nullcontext()

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        for _ in steps:
            pass

    def begin(self, progress: RunProgress) -> None:
        pass

    def foreseen(self, forecast: EndForecast | None, left: ForecastLeft) -> None:
        pass

    def refresh(self, now: float) -> None:
        pass

    def interrupted(self, running: int) -> None:
        pass

    def close(self) -> None:
        pass
