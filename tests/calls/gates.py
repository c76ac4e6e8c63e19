"""Calls that wait for a word from the test, without anybody sleeping."""

import os
from pathlib import Path
from typing import IO


class Gate:
    """``executor.submit(gate.wait)`` does not end before ``open`` is called."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "gate")
        os.mkfifo(self.path)
        self._end: IO[bytes] | None = None

    @property
    def wait(self) -> "Passage":
        return Passage(self.path)

    def meet(self) -> None:
        """Wait until the call is there, so that it is known to have begun."""
        self._end = open(self.path, "wb")  # noqa: SIM115 - held until the gate is opened

    def open(self) -> None:
        if self._end is None:
            self.meet()
        assert self._end is not None
        self._end.close()
        self._end = None


class Passage:
    """The side of the call, which returns what it was given."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, value: object = "through") -> object:
        with open(self.path, "rb") as gate:
            gate.read()
        return value
