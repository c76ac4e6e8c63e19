"""Waits until files are as a test wants them: the kernel tells when a directory changes."""

import ctypes
import os
import select
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

WAIT_SECONDS = 300.0
# Written, moved from and to, created, deleted: from <sys/inotify.h>.
_CHANGES = 0x002 | 0x008 | 0x040 | 0x080 | 0x100 | 0x200

_libc = ctypes.CDLL(None, use_errno=True)


def wait_for_files(
    is_so: Callable[[], object],
    what: str,
    *directories: Path,
    process: subprocess.Popen[bytes] | subprocess.Popen[str] | None = None,
) -> None:
    """Look again whenever a file of these directories changes; fails if it takes too long.

    A directory may be made meanwhile. Returns as well when the process has ended.
    """
    until = monotonic() + WAIT_SECONDS
    with ExitStack() as stack:
        changes = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        assert changes >= 0, os.strerror(ctypes.get_errno())
        stack.callback(os.close, changes)
        waited_for = [changes]
        if process is not None:
            waited_for.append(os.pidfd_open(process.pid))
            stack.callback(os.close, waited_for[-1])
        while True:
            for directory in directories:
                _watch(changes, directory)
            if is_so() or (process is not None and process.poll() is not None):
                return
            ready, _, _ = select.select(waited_for, [], [], max(until - monotonic(), 0.0))
            assert ready, f"it did not happen that {what}"
            if changes in ready:
                os.read(changes, 1 << 16)


def _watch(changes: int, directory: Path) -> None:
    """Watch a directory; if it is not there yet, the one in which the way to it ends."""
    way = [directory, *directory.absolute().parents]
    while True:
        watched = next(n for n, place in enumerate(way) if _is_watched(changes, place))
        if watched == 0 or not way[watched - 1].exists():  # else it was made just now
            return


def _is_watched(changes: int, place: Path) -> bool:
    return bool(_libc.inotify_add_watch(changes, os.fsencode(place), _CHANGES) >= 0)


def wait_for_path(path: Path) -> None:
    """Return when there is such a file."""
    wait_for_files(path.exists, f"there is {path}", path.parent)
