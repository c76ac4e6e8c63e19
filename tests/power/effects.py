"""What programs have asked of a file system, one thing after another.

A file or directory is called by a number of its own, which no other ever gets; the directory that
was watched is number `ROOT`.
"""

from dataclasses import dataclass

ROOT = 0


@dataclass(frozen=True, slots=True)
class Created:
    """A file, a directory or a symbolic link is new, and has a name."""

    item: int
    directory: int
    name: str
    kind: str  # "file", "directory" or "link"
    mode: int
    inode: int  # as the system numbers it; such numbers are used again
    target: str = ""  # of a link


@dataclass(frozen=True, slots=True)
class Wrote:
    item: int
    offset: int
    content: bytes
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Resized:
    item: int
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A file's mode or its time was set."""

    item: int
    mode: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Linked:
    item: int
    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Removed:
    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Renamed:
    directory: int
    name: str
    to_directory: int
    to_name: str


@dataclass(frozen=True, slots=True)
class Synced:
    """A file's content, or a directory's list of names, is on the disk; with ``data_only`` not
    necessarily its mode."""

    item: int
    data_only: bool


@dataclass(frozen=True, slots=True)
class SyncedAll:
    """Everything that had happened is on the disk."""


@dataclass(frozen=True, slots=True)
class Said:
    """A program has told the world something."""

    where: str  # the name of the file it wrote to, which is not watched
    text: str


Effect = (
    Created | Wrote | Resized | Changed | Linked | Removed | Renamed | Synced | SyncedAll | Said
)


@dataclass(frozen=True, slots=True)
class Recording:
    """``ends`` tells how many effects there were when each of the recorded commands had ended."""

    effects: tuple[Effect, ...]
    ends: tuple[int, ...]
    codes: tuple[int, ...]  # the exit codes of the commands
