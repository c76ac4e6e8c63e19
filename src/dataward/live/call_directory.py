"""Where an executor keeps its files. One of its own goes when nobody holds this any more."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from dataward.errors import OutputError


class CallDirectory:
    """Held by the executor's loop while it runs, and by every result that may be asked for."""

    __slots__ = ("__weakref__", "_calls", "_is_ours", "path")

    def __init__(self, path: Path | None) -> None:
        self._is_ours = path is None
        self.path = path or Path(tempfile.mkdtemp(prefix="dataward-"))
        self._calls = str(self.path / "calls")
        if self._is_ours:
            weakref.finalize(self, _remove, str(self.path), os.getpid())

    def make(self) -> None:
        """Raises OutputError, also if there is something in it."""
        try:
            if self.path.is_dir() and any(self.path.iterdir()):
                raise OutputError(str(self.path), "it holds other things; name a new directory")
            os.makedirs(self._calls)
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def write(self, name: str, content: bytes) -> str:
        path = f"{self._calls}/{name}"
        with open(path, "wb") as file:
            file.write(content)
        return path


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # not in a fork of the caller's
        shutil.rmtree(path, ignore_errors=True)
