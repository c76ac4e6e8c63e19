"""A directory as one file: its names, executable bits and contents, the same wherever it is packed.

A depot holds a directory packed, as one content with one digest; so nodes copy, check and remove it
as any other file.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from struct import Struct as Layout
from typing import NamedTuple

MAGIC = b"dataward tree 1\n"
HEAD = Layout("<cIQ")  # the kind of an entry, the length of its name, its size
DIRECTORY, FILE, EXECUTABLE = b"d", b"f", b"x"
CHUNK_BYTES = 1 << 20
_CUT_OFF = "it is a packed directory whose end is missing"


class OddEntry(Exception):  # noqa: N818 - says what is wrong with a directory
    """A directory holds something that is neither a file nor a directory."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path!r} {problem}")


class Entry(NamedTuple):
    """Something below a directory, by its path from there."""

    name: bytes
    path: str
    kind: bytes
    size_bytes: int
    modified_ns: int
    changed_ns: int  # the time that nobody can set


def entries_of(top: str, may_follow: Callable[[str], bool] = lambda path: True) -> list[Entry]:
    """Everything below a directory, by name, so that a directory comes before what is in it.

    A link to a file counts as that file, if ``may_follow`` its path. Raises OddEntry for any other
    link, and for pipes, sockets and devices.
    """
    found: list[Entry] = []
    open_places = [(top, b"")]
    for place, prefix in open_places:  # grows on the way
        with os.scandir(place) as listed:
            for item in listed:
                entry = _entry(item, prefix + os.fsencode(item.name), may_follow)
                found.append(entry)
                if entry.kind == DIRECTORY:
                    open_places.append((entry.path, entry.name + b"/"))
    return sorted(found)


def _entry(item: "os.DirEntry[str]", name: bytes, may_follow: Callable[[str], bool]) -> Entry:
    status = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        shown = f"is a link to {os.readlink(item.path)!r}"
        if not may_follow(item.path):
            raise OddEntry(item.path, f"{shown}, which is not in the task's own directory")
        try:
            status = item.stat()
        except OSError:
            raise OddEntry(item.path, f"{shown}, which is not there") from None
        if stat.S_ISDIR(status.st_mode):
            raise OddEntry(item.path, f"{shown}, a directory; only links to files are followed")
    if stat.S_ISDIR(status.st_mode):
        return Entry(name, item.path, DIRECTORY, 0, status.st_mtime_ns, status.st_ctime_ns)
    if not stat.S_ISREG(status.st_mode):
        raise OddEntry(item.path, "is neither a file nor a directory")
    kind = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
    return Entry(name, item.path, kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def packed(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The packed directory, in chunks. Raises OSError, also if a file changes meanwhile."""
    yield MAGIC
    for entry in entries:
        yield HEAD.pack(entry.kind, len(entry.name), entry.size_bytes) + entry.name
        if entry.kind != DIRECTORY:
            yield from _contents(entry)


def _contents(entry: Entry) -> Iterator[bytes]:
    left = entry.size_bytes
    with open(entry.path, "rb", buffering=0) as file:
        while left and (chunk := file.read(min(left, CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
        if left or file.read(1):
            raise OSError(0, "it was written to while it was read", entry.path)


def pack(entries: Iterable[Entry], path: str) -> tuple[str, int]:
    """Write the packed directory to a new file; its digest and its size."""
    from blake3 import blake3

    hasher, size_bytes = blake3(), 0
    with open(path, "xb") as file:
        for chunk in packed(entries):
            hasher.update(chunk)
            size_bytes += file.write(chunk)
    return hasher.hexdigest(), size_bytes


def tree_digest(entries: Iterable[Entry]) -> str:
    """The digest that the packed directory would have."""
    from blake3 import blake3

    hasher = blake3()
    for chunk in packed(entries):
        hasher.update(chunk)
    return hasher.hexdigest()


def unpack(path: str, top: str) -> None:
    """Make the directory ``top`` with what was packed. Raises OSError."""
    os.mkdir(top)
    place = os.fsencode(top)
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise OSError(0, "it is no packed directory", path)
        while head := file.read(HEAD.size):
            if len(head) < HEAD.size:
                raise OSError(0, _CUT_OFF, path)
            kind, length, size_bytes = HEAD.unpack(head)
            name = file.read(length)
            if name.startswith(b"/") or b".." in name.split(b"/"):
                raise OSError(0, "it names a file outside of its directory", path)
            if kind == DIRECTORY:
                os.mkdir(os.path.join(place, name))
                continue
            mode = 0o777 if kind == EXECUTABLE else 0o666
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(os.path.join(place, name), flags, mode), "wb") as copy:
                while size_bytes and (chunk := file.read(min(size_bytes, CHUNK_BYTES))):
                    size_bytes -= copy.write(chunk)
            if size_bytes:
                raise OSError(0, _CUT_OFF, path)


def tree_fingerprint(top: str) -> tuple[int, int]:
    """The total size of a directory's files, and when it or anything in it last changed."""
    size_bytes, latest_ns = 0, os.stat(top).st_mtime_ns
    for place, directories, files in os.walk(top):
        for name in (*directories, *files):
            with suppress(FileNotFoundError):  # a link to nowhere, or removed just now
                status = os.stat(os.path.join(place, name))
                size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
                latest_ns = max(latest_ns, status.st_mtime_ns)
    return size_bytes, latest_ns
