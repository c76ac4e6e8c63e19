"""Digests of the files a workflow starts from; a file is read again only if it has changed.

Size, time of modification and inode tell whether a file has changed, as for ``make`` and ``git``.
The remembered digests are only a cache: without them, files are read again. They are also read
again if a power cut may have taken the content that was read, and left the rest as it was.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

import msgspec
from blake3 import blake3

from dataward.errors import DatawardError, FormatError
from dataward.live.depot_disk import Place
from dataward.live.file_digest import file_digest
from dataward.live.packed_tree import OddEntry, entries_of, tree_digest
from dataward.model.directories import is_directory
from dataward.stores.journal import Journal

VERSION = 2  # grows when what is remembered changes its meaning

# A file that is written twice within one tick of its file system's clock looks the same after the
# second time. FAT has the longest ticks, 2 s; a file server's clock is trusted to be that exact.
SETTLED_NS = 2_000_000_000

# What was changed longer ago is on the disk, whoever wrote it: Linux writes everything out within
# half a minute or, to spare a laptop's disk, ten. What is newer may be read from memory only.
ON_DISK_NS = 3600 * 1_000_000_000


class InputFileError(DatawardError):
    """A file that the workflow starts from cannot be read, or changed while it was read."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"input file {str(path)!r} {problem}")


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    """A file's size, times and inode when it was read, and the digest of its content.

    If ``boot`` is not "", that counts only until the machine is started again.
    """

    look: tuple[int, int, int]
    digest: str
    boot: str


_Remembered = dict[bytes, _Seen]


class InputDigests:
    """Digests of files by path. Each call may take as long as reading the file does.

    Several threads may ask at the same time; a file that two threads ask for may be read twice.
    """

    def __init__(
        self, cache_path: Path, now_ns: Callable[[], int] = time.time_ns, boot: str | None = None
    ) -> None:
        self._cache_path = cache_path
        self._now_ns = now_ns
        self._boot = this_boot() if boot is None else boot
        known = _load(cache_path)
        self._remembered = {k: seen for k, seen in known.items() if seen.boot in ("", self._boot)}
        self._is_saved = True

    def digest_of(self, path: Path) -> str:
        """BLAKE3 of the file's content, as hexadecimal digits. Raises InputFileError."""
        key = os.fsencode(os.path.abspath(path))
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
                kind = "not a plain file"
                if stat.S_ISDIR(status.st_mode):
                    kind = f"a directory; as an input it is called {path.name + '/'!r}"
                raise InputFileError(path, f"is {kind}")
            seen = self._remembered.get(key)
            if seen is None or seen.look != _look(status):
                seen = self._read(path, key, status)
            elif seen.boot and not self._until(status.st_ctime_ns, self._now_ns()):
                self._remembered[key] = msgspec.structs.replace(seen, boot="")
                self._is_saved = False
        except FileNotFoundError:
            raise InputFileError(path, "does not exist") from None
        except OSError as error:
            raise InputFileError(path, f"cannot be read: {error.strerror}") from error
        return seen.digest

    def remember(self, place: Place) -> None:
        """Note the digest of a file that this process has written or read, if it is as it was."""
        try:
            status = os.stat(place.path)
        except OSError:
            return
        if (status.st_size, status.st_mtime_ns) == (place.size_bytes, place.modified_ns):
            key = os.fsencode(os.path.abspath(place.path))
            now_ns = self._now_ns()
            seen = _Seen(_look(status), place.digest, self._until(status.st_ctime_ns, now_ns))
            self._remember(key, seen, status.st_mtime_ns, now_ns)

    def digest_as(self, file: str, path: Path) -> str:
        """The digest of a file, or of a whole directory if the name ``file`` stands for one."""
        return self.digest_of_tree(path) if is_directory(file) else self.digest_of(path)

    def digest_of_tree(self, path: Path) -> str:
        """The digest of a directory with everything in it. Raises InputFileError."""
        key = os.fsencode(os.path.abspath(path)) + b"/"
        began_ns = self._now_ns()
        try:
            entries = entries_of(str(path))
            listed = msgspec.msgpack.encode(
                [(e.name, e.kind, e.size_bytes, e.modified_ns) for e in entries]
            )
            latest_ns = max([entry.modified_ns for entry in entries], default=0)
            size_bytes = sum(entry.size_bytes for entry in entries)
            look = (size_bytes, latest_ns, int.from_bytes(blake3(listed).digest(7)))
            seen = self._remembered.get(key)
            if seen is None or seen.look != look:
                changed_ns = max(entry.changed_ns for entry in entries) if entries else 0
                seen = _Seen(look, tree_digest(entries), self._until(changed_ns, began_ns))
                self._remember(key, seen, latest_ns, began_ns)
        except OddEntry as odd:
            raise InputFileError(Path(odd.path), odd.problem) from None
        except FileNotFoundError:
            raise InputFileError(path, "does not exist") from None
        except OSError as error:
            raise InputFileError(path, f"cannot be read: {error.strerror}") from error
        return seen.digest

    def save(self) -> None:
        """Remember the digests for the next run; if that fails, the next run reads files again."""
        if self._is_saved:
            return
        with suppress(OSError):
            payload = msgspec.msgpack.encode((VERSION, self._remembered))
            Journal.create(self._cache_path, [payload]).close()
            self._is_saved = True

    def _read(self, path: Path, key: bytes, before: os.stat_result) -> _Seen:
        began_ns = self._now_ns()
        with FileIO(path) as file:
            digest = file_digest(file, before.st_size)
            after = os.fstat(file.fileno())
        if _look(before) != _look(after):
            raise InputFileError(path, "was written to while it was read; wait until it is whole")
        seen = _Seen(_look(after), digest, self._until(after.st_ctime_ns, began_ns))
        self._remember(key, seen, after.st_mtime_ns, began_ns)
        return seen

    def _until(self, changed_ns: int, began_ns: int) -> str:
        """Until when a digest counts if the file was changed then: see `_Seen`."""
        return "" if changed_ns + ON_DISK_NS <= began_ns else self._boot

    def _remember(self, key: bytes, seen: _Seen, modified_ns: int, began_ns: int) -> None:
        # Otherwise a write after this reading might leave size and time as they are now.
        if modified_ns + SETTLED_NS <= began_ns:
            self._remembered[key] = seen
            self._is_saved = False


def this_boot() -> str:
    """A word that changes when the machine is started again."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"not known to {os.getpid()}-{time.time_ns()}"  # so another one each time


def lies_at(file: str, path: Path) -> bool:
    """Whether there is a file at the path, or a directory if the name ``file`` stands for one."""
    return path.is_dir() if is_directory(file) else path.is_file()


def _look(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from a changed one: size, time of modification, inode.

    The time of change would be safer, but linking the file somewhere else changes that too.
    """
    return status.st_size, status.st_mtime_ns, status.st_ino


def _load(path: Path) -> _Remembered:
    try:
        journal = Journal(path)
        try:
            (payload,) = journal.frames()
        finally:
            journal.close()
        version, remembered = msgspec.msgpack.decode(payload, type=tuple[int, _Remembered])
    except (OSError, FormatError, ValueError):  # msgspec's errors are ValueErrors
        return {}
    return remembered if version == VERSION else {}
