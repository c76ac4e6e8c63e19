"""A file that grows by frames; each is on the disk before the next is begun. What the payloads mean
is left to the caller.

    header  "dataward journal", version, the file's salt, checksum
    frame   the file's salt, the frame's number, length, checksum, payload
    frame   ...

A checksum is BLAKE2b of 8 bytes, keyed with the salt. The salt is random for each file and is not
valid UTF-8. So neither an old journal's block left on the disk nor the name of a task is ever taken
for a frame. CRC-32 promises neither and passes one bad frame in four billion; it is faster, but not
noticeably so beside a sync.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from struct import Struct

from dataward.errors import DatawardError, FormatError

VERSION = 2  # grows when a payload, or the rule that replays it, changes its meaning
_MAGIC = b"dataward journal"
_SALT_BYTES = 8
_CHECKSUM_BYTES = 8
_HEADER = Struct(f">{len(_MAGIC)}sI{_SALT_BYTES}s{_CHECKSUM_BYTES}s")
_FRAME = Struct(f">{_SALT_BYTES}sQQ{_CHECKSUM_BYTES}s")
_KEEP_A_COPY = (
    "restore its directory from a copy, or move it away and submit again: "
    "nodes report what they have completed"
)


class DirectoryInUse(DatawardError):  # noqa: N818 - a condition, as those in world.py
    """Another process has the directory open, or this process has it open already."""

    def __init__(self, directory: Path, process: str) -> None:
        self.directory = directory
        self.process = process
        who = f"process {process}" if process else "another process"
        super().__init__(f"{directory} is in use by {who}; only one at a time may have it open")


def make_directory(directory: Path) -> None:
    """Make the directory and its parents if missing; a power cut does not undo it."""
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync_directory(directory.parent)


class DirectoryLock:
    """Keeps a directory to one process, until released or until the process ends or is killed."""

    def __init__(self, directory: Path) -> None:
        # The file is not removed on release: a process that has just opened it would lock a file
        # that the next process no longer finds.
        self._file = open(directory / "lock", "a+b", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder_in(self._file)
            self._file.close()
            raise DirectoryInUse(directory, holder) from None
        with suppress(OSError):  # the pid only informs: with a full disk the lock still counts
            self._file.truncate(0)
            self._file.write(b"%d\n" % os.getpid())

    def release(self) -> None:
        self._file.close()


def check_unused(directory: Path) -> None:
    """Raise DirectoryInUse if a process has locked the directory; nothing there is changed."""
    if is_locked(directory):
        with open(directory / "lock", "rb", buffering=0) as file:
            raise DirectoryInUse(directory, _holder_in(file))


def _holder_in(file: FileIO) -> str:
    """The process that a lock file names, or "" if it names none."""
    file.seek(0)
    return file.read(20).decode(errors="replace").strip()


def is_locked(directory: Path) -> bool:
    return _look_at_lock(directory) == "locked"


def is_abandoned(directory: Path) -> bool:
    """Whether the process that locked it is gone. A process about to lock it does not count."""
    return _look_at_lock(directory) == "abandoned"


def _look_at_lock(directory: Path) -> str:
    try:
        with open(directory / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return "abandoned" if file.read(1) else "new"  # the pid is written after locking
    except BlockingIOError:
        return "locked"
    except OSError:
        return "none"


class Journal:
    """A journal file open for appending, once `frames` has been read to its end.

    Its methods wait for the disk, so they may be called from any thread, one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0  # up to here every frame is known to be good and on the disk
        self.cut_bytes = 0  # the length of an unfinished frame that a crash left at the end
        self._count = 0
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115
        try:
            self._salt = self._read_header()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, payloads: Iterable[bytes]) -> "Journal":
        """A new journal with these frames. After a crash the file is whole, or not there."""
        count = _write_whole(path, payloads)
        journal = cls(path)
        journal._count = count
        journal.size_bytes = path.stat().st_size
        return journal

    def close(self) -> None:
        self._file.close()

    # --- reading ---------------------------------------------------------------------------------

    def frames(self) -> Iterator[bytes]:
        """Every payload, first to last; then the journal is ready to be appended to.

        An incomplete last frame is cut off: nobody was told of it. No frame is begun before the
        frame ahead of it is on the disk, so an incomplete frame that another follows means damage,
        and raises FormatError. A last frame that was damaged after it was written cannot be told
        from one that was never completed.
        """
        end = os.fstat(self._file.fileno()).st_size
        with open(self.path, "rb") as reader:
            while frame := self._read_frame(reader, self.size_bytes, end):
                number, payload = frame
                if number != self._count:
                    problem = f"has frame {number} where {self._count} should be"
                    raise self._damaged(problem, self.size_bytes)
                self._count += 1
                self.size_bytes += _FRAME.size + len(payload)
                yield payload
            self._refuse_if_more_follows(reader, end)
        self.cut_bytes = end - self.size_bytes
        os.ftruncate(self._file.fileno(), self.size_bytes)
        # A killed process may have left frames that were written but not yet on the disk.
        os.fsync(self._file.fileno())

    def _read_header(self) -> bytes:
        header = self._file.read(_HEADER.size) or b""
        if not header.startswith(_MAGIC):
            raise FormatError(str(self.path), "is no dataward journal")
        if len(header) < _HEADER.size:
            raise self._damaged("is cut off within its header", 0)
        _, version, salt, checksum = _HEADER.unpack(header)
        if version != VERSION:
            raise FormatError(
                str(self.path),
                f"is a journal of version {version}; this dataward reads version {VERSION}",
                remedy="open it with the dataward that wrote it",
            )
        if checksum != _checksum(salt, header[:-_CHECKSUM_BYTES]):
            raise self._damaged("has a damaged header", 0)
        self.size_bytes = _HEADER.size
        return bytes(salt)

    def _read_frame(
        self, reader: BufferedReader, offset: int, end: int
    ) -> tuple[int, bytes] | None:
        """Number and payload of the frame at ``offset``, or None if no good frame is there."""
        reader.seek(offset)
        head = reader.read(_FRAME.size)
        if len(head) < _FRAME.size:
            return None
        salt, number, length, checksum = _FRAME.unpack(head)
        if salt != self._salt or length > end - offset - _FRAME.size:
            return None
        payload = reader.read(length)
        is_good = checksum == _checksum(salt, head[:-_CHECKSUM_BYTES], payload)
        return (number, payload) if is_good else None

    def _refuse_if_more_follows(self, reader: BufferedReader, end: int) -> None:
        bad = self.size_bytes
        reader.seek(bad)
        rest = reader.read()
        place = rest.find(self._salt, 1)
        while place >= 0:
            if self._read_frame(reader, bad + place, end):
                raise self._damaged(f"is damaged; good again from byte {bad + place}", bad)
            place = rest.find(self._salt, place + 1)

    def _damaged(self, problem: str, place: int) -> FormatError:
        return FormatError(str(self.path), problem, place=f"byte {place}", remedy=_KEEP_A_COPY)

    # --- writing ---------------------------------------------------------------------------------

    def append(self, payload: bytes) -> None:
        """Add a frame; it is on the disk when this returns.

        Raises OSError, after which the journal must be opened again: after a failed write, the
        system's cache says nothing of what is on the disk.
        """
        file = self._file.fileno()
        frame = _frame(self._salt, self._count, payload)
        try:
            _write_at(file, frame, self.size_bytes)
            _sync(file)
        except OSError:
            # Otherwise a process that opens the journal again might read the frame from the
            # system's cache and rely on it, though it never got to the disk.
            with suppress(OSError):
                os.ftruncate(file, self.size_bytes)
            raise
        self._count += 1
        self.size_bytes += len(frame)

    def replace(self, payloads: Iterable[bytes]) -> None:
        """Replace the file by a new one with these frames, atomically and durably.

        Raises OSError, after which either file may be there, and the journal must be opened again.
        """
        successor = Journal.create(self.path, payloads)
        self._file.close()
        self._file, self._salt = successor._file, successor._salt
        self._count, self.size_bytes = successor._count, successor.size_bytes


def _write_whole(path: Path, payloads: Iterable[bytes]) -> int:
    """The number of frames written. The file is renamed at the end, so nobody finds half of it."""
    count = 0
    draft = path.with_suffix(".new")
    try:
        with open(draft, "wb") as file:
            salt = b"\xff" + os.urandom(_SALT_BYTES - 1)  # UTF-8 never has the byte ff
            file.write(_header(salt))
            for payload in payloads:
                file.write(_frame(salt, count, payload))
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    _sync_directory(path.parent)
    return count


def _sync(file: int) -> None:
    os.fdatasync(file)


def _sync_directory(directory: Path) -> None:
    """Make a rename last: the name of a file is in its directory."""
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _header(salt: bytes) -> bytes:
    header = _HEADER.pack(_MAGIC, VERSION, salt, b"")[:-_CHECKSUM_BYTES]
    return header + _checksum(salt, header)


def _frame(salt: bytes, number: int, payload: bytes) -> bytes:
    head = _FRAME.pack(salt, number, len(payload), b"")[:-_CHECKSUM_BYTES]
    return head + _checksum(salt, head, payload) + payload


def _checksum(salt: bytes, *parts: bytes) -> bytes:
    digest = blake2b(digest_size=_CHECKSUM_BYTES, key=salt)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _write_at(file: int, content: bytes, offset: int) -> None:
    """Write all of it: a disk that runs full writes a part first and raises at the next call."""
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, offset)
        left = left[written:]
        offset += written
