"""What a power cut would leave of a directory, told from what was synced, and when."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from dataward.live import durability


class Plug:
    """Watches every sync of this process from the moment it is made; `pull` cuts the power.

    A content survives if its file was synced, a name if its directory was synced while the file
    was called so. Nothing survives by luck: a real file system would save more. Nothing is really
    synced, for the power is not really cut, and disks are slow.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []  # what was synced or renamed, by its last name
        self.disk_is_full = False
        self._root = root
        self._held: list[int] = []  # open files, so that no inode is used again
        self._contents: set[int] = set()
        self._names: dict[str, dict[str, int]] = {}
        self._real_rename = os.rename
        self._note_all()
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "rename", self._rename)
        monkeypatch.setattr(durability, "libc", lambda: self)

    def close(self) -> None:
        for file in self._held:
            os.close(file)

    def pull(self, directory: Path) -> None:
        """Take away all below this directory that was not synced, and the directory if need be."""
        for parent in (*reversed(directory.relative_to(self._root).parents), None):
            place = directory if parent is None else self._root / parent
            if place.is_dir():
                self._forget_unsafe(place, only=directory if parent is not None else None)

    def _forget_unsafe(self, directory: Path, only: Path | None) -> None:
        safe = self._names.get(str(directory), {})
        for entry in list(os.scandir(directory)):
            path = Path(entry.path)
            if only is not None and path != only and path not in only.parents:
                continue
            if safe.get(entry.name) != entry.inode():
                _take_away(path)
            elif entry.is_dir() and only is None:
                self._forget_unsafe(path, None)
            elif entry.is_file() and entry.inode() not in self._contents:
                path.chmod(0o600)
                os.truncate(path, 0)

    # --- what the process asks of the system -----------------------------------------------------

    def _fsync(self, file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        self.calls.append(("fsync", path.name))
        self._fail_if_full()
        self._held.append(os.dup(file))
        if path.is_dir():
            self._note_names(path)
        else:
            self._contents.add(os.fstat(file).st_ino)

    def syncfs(self, file: int) -> int:
        """In place of the C library's."""
        self.calls.append(("syncfs", ""))
        self._fail_if_full()
        self._note_all()
        return 0

    def _rename(self, source: str, target: str) -> None:
        self._real_rename(source, target)
        self.calls.append(("rename", os.path.basename(source)))

    def _fail_if_full(self) -> None:
        if self.disk_is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _note_names(self, directory: Path) -> None:
        self._names[str(directory)] = {e.name: e.inode() for e in os.scandir(directory)}

    def _note_all(self) -> None:
        for place, _, files in os.walk(self._root):
            self._note_names(Path(place))
            for name in files:
                file = os.open(os.path.join(place, name), os.O_RDONLY)
                self._held.append(file)
                self._contents.add(os.fstat(file).st_ino)


def _take_away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
