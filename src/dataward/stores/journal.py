"""A file that grows by frames, each on the disk before the next is begun. What they say is not
its business.

    header  "dataward journal", version, the file's salt, checksum
    frame   the file's salt, the frame's number, length, checksum, payload
    frame   ...

A checksum is BLAKE2b of 8 bytes, keyed with the salt. The salt is drawn for each file and is no
text: so neither a block that the disk had from an older journal nor anything a task may be called
is ever taken for a frame. CRC-32 promises neither, passes one bad frame in four billion, and is
no faster that anyone would notice beside a sync.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from struct import Struct

from dataward.errors import DatawardError, FormatError

VERSION = 1  # grows when a payload, or a rule that replays one, no longer means what it did
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
    """Another process has the directory open, or this one has it open already."""

    def __init__(self, directory: Path, process: str) -> None:
        self.directory = directory
        self.process = process
        who = f"process {process}" if process else "another process"
        super().__init__(f"{directory} is in use by {who}; only one at a time may have it open")


def make_directory(directory: Path) -> None:
    """Make it if it is not there, and its parents, so that no loss of power takes it away."""
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync_directory(directory.parent)


class DirectoryLock:
    """Keeps a directory to one process, until released or until the process ends, however."""

    def __init__(self, directory: Path) -> None:
        # Not removed when released: somebody may be about to lock the file that was removed.
        self._file = open(directory / "lock", "a+b", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read(20).decode(errors="replace").strip()
            self._file.close()
            raise DirectoryInUse(directory, holder) from None
        with suppress(OSError):  # only for others to read: a full disk may still be opened
            self._file.truncate(0)
            self._file.write(b"%d\n" % os.getpid())

    def release(self) -> None:
        self._file.close()


def is_locked(directory: Path) -> bool:
    return _look_at_lock(directory) == "locked"


def is_abandoned(directory: Path) -> bool:
    """Whether somebody had it locked who is gone. One who is about to lock it is not."""
    return _look_at_lock(directory) == "abandoned"


def _look_at_lock(directory: Path) -> str:
    try:
        with open(directory / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return "abandoned" if file.read(1) else "new"  # the number is written once it is locked
    except BlockingIOError:
        return "locked"
    except OSError:
        return "none"


class Journal:
    """A journal file open for appending, once `frames` has been read to its end.

    Waits for the disk, so it may be used from another thread, by one at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0  # up to here all is known to be good, and on the disk
        self.cut_bytes = 0  # what a crash had left unfinished at the end
        self._count = 0
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115
        try:
            self._salt = self._read_header()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, payloads: Iterable[bytes]) -> "Journal":
        """A new journal with these frames. It is there whole or, after a crash, not at all."""
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

        A frame that is not whole can only be the last one, which nobody was told of, since no
        frame is begun before the one ahead of it is on the disk: it is cut off. If another
        follows it, the file was damaged: raises FormatError. A last frame that was whole once and
        damaged since cannot be told from one that never was.
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
        """Number and payload of the frame that starts here, or None if there is no good one."""
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

        Raises OSError, after which the journal must be opened anew: what the system still has of
        a write that failed says nothing of what the disk has.
        """
        file = self._file.fileno()
        frame = _frame(self._salt, self._count, payload)
        try:
            _write_at(file, frame, self.size_bytes)
            _sync(file)
        except OSError:
            # Else a process that opens the journal anew might read from the system's memory what
            # never got to the disk, and build on it.
            with suppress(OSError):
                os.ftruncate(file, self.size_bytes)
            raise
        self._count += 1
        self.size_bytes += len(frame)

    def replace(self, payloads: Iterable[bytes]) -> None:
        """Put a new file with these frames in the place of this one, at once and for good.

        Raises OSError, after which it is one or the other, and must be opened anew.
        """
        successor = Journal.create(self.path, payloads)
        self._file.close()
        self._file, self._salt = successor._file, successor._salt
        self._count, self.size_bytes = successor._count, successor.size_bytes


def _write_whole(path: Path, payloads: Iterable[bytes]) -> int:
    """How many frames there were. Under another name first, so that no half-done file is found."""
    count = 0
    draft = path.with_suffix(".new")
    try:
        with open(draft, "wb") as file:
            salt = b"\xff" + os.urandom(_SALT_BYTES - 1)  # a byte that UTF-8 never has
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
    """All of it: a disk that runs full takes a part first and complains at the next attempt."""
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, offset)
        left = left[written:]
        offset += written
