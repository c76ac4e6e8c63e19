"""The directory of an executor's files. A temporary one is removed with its last reference.

If the process was killed, the directory stays until the next executor finds that nobody has it
locked, and removes it.
"""

import os
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

from dataward.errors import OutputError
from dataward.live.trees import remove_tree
from dataward.stores.journal import DirectoryLock, is_abandoned

_PREFIX = "dataward-calls-"
_HELD = "held"  # the lock's directory; only temporary directories have it
_YOUNG_SECONDS = 60.0  # a directory this young may be about to be locked


class CallDirectory:
    """Referenced by the executor's loop while it runs, and by every result still to be read."""

    __slots__ = ("__weakref__", "_calls", "_is_ours", "path")

    def __init__(self, path: Path | None) -> None:
        self._is_ours = path is None
        self.path = path or Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._calls = str(self.path / "calls")
        if self._is_ours:
            (self.path / _HELD).mkdir()
            lock = DirectoryLock(self.path / _HELD)
            weakref.finalize(self, _remove, str(self.path), os.getpid(), lock)

    def make(self) -> None:
        """Make the directory. Raises OutputError, also if the user's directory is not empty."""
        try:
            if self._is_ours:
                remove_abandoned(self.path.parent)
            elif self.path.is_dir() and any(self.path.iterdir()):
                raise OutputError(str(self.path), "it holds other things; name a new directory")
            os.makedirs(self._calls)
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    @property
    def exists(self) -> bool:
        return os.path.isdir(self._calls)

    def path_of(self, name: str) -> str:
        """Where a file of a bundle is."""
        return f"{self._calls}/{name}"


def _remove(path: str, process: int, lock: DirectoryLock) -> None:
    if os.getpid() == process:  # not in a fork of this process
        with suppress(OSError):
            remove_tree(path)
        lock.release()


def remove_abandoned(place: Path) -> None:
    """Remove directories left there by this user's executors whose processes were killed."""
    with suppress(OSError):
        for entry in os.scandir(place):
            if entry.name.startswith(_PREFIX) and _is_abandoned(entry):
                with suppress(OSError):
                    remove_tree(entry.path)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # somebody has just removed it
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and status.st_mtime < time.time() - _YOUNG_SECONDS
        and is_abandoned(Path(entry.path, _HELD))
    )
