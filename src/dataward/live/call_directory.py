"""Where an executor keeps its files. One of its own goes when nobody holds this any more.

One whose process was killed stays, until the next executor finds it: nobody has it locked then.
"""

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from dataward.errors import OutputError
from dataward.stores.journal import DirectoryLock, is_abandoned

_PREFIX = "dataward-"


class CallDirectory:
    """Held by the executor's loop while it runs, and by every result that may be asked for."""

    __slots__ = ("__weakref__", "_calls", "_is_ours", "path")

    def __init__(self, path: Path | None) -> None:
        self._is_ours = path is None
        self.path = path or Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._calls = str(self.path / "calls")
        if self._is_ours:
            lock = DirectoryLock(self.path)
            weakref.finalize(self, _remove, str(self.path), os.getpid(), lock)

    def make(self) -> None:
        """Raises OutputError, also if there is something in one that is not its own."""
        try:
            if self._is_ours:
                remove_abandoned(self.path.parent)
            elif self.path.is_dir() and any(self.path.iterdir()):
                raise OutputError(str(self.path), "it holds other things; name a new directory")
            os.makedirs(self._calls)
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def write(self, name: str, content: bytes) -> str:
        path = f"{self._calls}/{name}"
        with open(path, "wb") as file:
            file.write(content)
        return path


def _remove(path: str, process: int, lock: DirectoryLock) -> None:
    if os.getpid() == process:  # not in a fork of the caller's
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


def remove_abandoned(place: Path) -> None:
    """Remove what executors of this user have left there whose processes were killed."""
    for entry in os.scandir(place):
        if (
            entry.name.startswith(_PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.getuid()
            and is_abandoned(Path(entry.path))
        ):
            shutil.rmtree(entry.path, ignore_errors=True)
