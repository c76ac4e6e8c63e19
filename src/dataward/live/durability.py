"""Writes files through to the disk, so that they survive a power cut."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dataward.live.libc import libc

# Measured on ext4: syncing a file takes 0.2 ms, the whole file system with fifty new files 0.6 ms.
# But the latter also waits for what other programs write, so a few files are synced one by one.
SYNC_ALL_FILES = 8


def sync_path(path: str) -> None:
    """Write a file, or a directory's list of names, through to the disk. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def replace_content(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file's content, or make the file, with this mode at most. Raises OSError.

    Whatever happens, the file has its old content or the new; when this returns, it has the new.
    """
    draft = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        draft.unlink()  # it might have another mode
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_path(str(path.parent))


def sync_files(paths: Sequence[str]) -> None:
    """Write these files of one file system through to the disk. Raises OSError.

    A file that has been removed since is skipped: nobody needs it on the disk. The directories
    that list the files are left to the caller, unless the whole file system is synced.
    """
    if len(paths) >= SYNC_ALL_FILES and _sync_file_system_of(os.path.dirname(paths[0])):
        return
    for path in paths:
        with suppress(FileNotFoundError):
            sync_path(path)


def _sync_file_system_of(directory: str) -> bool:
    """Whether the directory's whole file system was synced. False if the system cannot do that."""
    file = os.open(directory, os.O_RDONLY)
    try:
        return bool(libc().syncfs(file) == 0)
    finally:
        os.close(file)
