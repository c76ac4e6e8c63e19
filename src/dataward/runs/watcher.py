"""Whoever watches a run, told how it goes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from dataward.reports.progress import RunProgress


class Watcher(Protocol):
    """Whoever shows how a run goes."""

    def busy(self, what: str, tasks: int) -> AbstractContextManager[None]:
        """Something is done within this context that takes a while if there are many tasks."""
        ...

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        """Take so many steps, and show how far they are."""
        ...

    def begin(self, progress: RunProgress) -> None:
        """The run begins; ``progress`` always tells how far it is."""
        ...

    def refresh(self, now: float) -> None: ...

    def interrupted(self, running: int) -> None:
        """The run was asked to stop; so many tasks are running."""
        ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def busy(self, what: str, tasks: int) -> AbstractContextManager[None]:
        return nullcontext()

    def look_at_inputs(self, steps: Iterator[int], count: int) -> None:
        for _ in steps:
            pass

    def begin(self, progress: RunProgress) -> None:
        pass

    def refresh(self, now: float) -> None:
        pass

    def interrupted(self, running: int) -> None:
        pass

    def close(self) -> None:
        pass
