"""A task's private directory: its inputs linked in, its outputs taken out.

Outputs go to the depot under the name of their content. Small ones are hashed here, between two
tasks; large ones are left for the node, so that a core does not wait for a disk.
"""

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from dataward.live.orders import Input, Written

HASHED_HERE_BYTES = 1 << 20
READ_ONLY = 0o444


class BadOutput(Exception):  # noqa: N818 - what becomes of a task, said in a sentence
    """A task did not leave what it had declared."""


class Sandbox:
    """One directory, used by one task after another; the process's working directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._large = 0
        self._linked: dict[str, tuple[int, int]] = {}  # size and time of change, as they were
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)

    def link_in(self, inputs: Sequence[Input]) -> None:
        for file in inputs:
            if "/" in file.name:
                os.makedirs(os.path.dirname(file.name), exist_ok=True)
            if file.outside:
                os.symlink(file.path, file.name)
                continue
            status = os.stat(file.path)
            self._linked[file.name] = (status.st_size, status.st_mtime_ns)
            try:
                os.link(file.path, file.name)
            except OSError:
                # Too many links to it, or a file system that has none: a name will do.
                os.symlink(file.path, file.name)

    def spoiled(self, inputs: Sequence[Input]) -> tuple[str, ...]:
        """Inputs from the depot that the task wrote to, which being read-only did not prevent."""
        found = []
        for file in inputs:
            if not file.outside:
                status = os.stat(file.path)
                if (status.st_size, status.st_mtime_ns) != self._linked[file.name]:
                    found.append(file.name)
        self._linked.clear()
        return tuple(found)

    def take_out(self, outputs: Sequence[str], depot: str) -> tuple[Written, ...]:
        """Put every declared output into the depot. Raises BadOutput before any is moved."""
        sizes = [self._check(name) for name in outputs]
        return tuple(
            self._move(name, size, depot) for name, size in zip(outputs, sizes, strict=True)
        )

    def _check(self, name: str) -> int:
        try:
            found = os.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            raise BadOutput(
                f"it ended well but did not write {name!r}, which it declares as an output"
            ) from None
        if stat.S_ISLNK(found.st_mode):
            found = self._follow(name)
        if stat.S_ISDIR(found.st_mode):
            raise BadOutput(f"it wrote a directory where it declares the file {name!r}")
        if not stat.S_ISREG(found.st_mode):
            raise BadOutput(f"what it wrote as {name!r} is not a plain file")
        return found.st_size

    def _follow(self, name: str) -> os.stat_result:
        """A link within the directory is as good as its target; put the target in its place."""
        target = os.path.realpath(name)
        found = None
        if target.startswith(self.directory + os.sep):
            with suppress(OSError):  # it is not there, or goes round in circles
                found = os.stat(target)
        if found is None:
            shown = os.readlink(name)
            raise BadOutput(
                f"it wrote {name!r} as a link to {shown!r}, which is not in its own directory"
            )
        if stat.S_ISREG(found.st_mode):
            os.unlink(name)
            os.link(target, name)
        return found

    def _move(self, name: str, size_bytes: int, depot: str) -> Written:
        os.chmod(name, READ_ONLY)
        if size_bytes > HASHED_HERE_BYTES:
            self._large += 1
            path = f"{depot}/incoming/{os.getpid()}.{self._large}"
            os.makedirs(f"{depot}/incoming", exist_ok=True)
            os.rename(name, path)
            return Written(name, size_bytes, "", path)
        with open(name, "rb", buffering=0) as file:
            digest = blake3(file.read()).hexdigest()
        return Written(name, size_bytes, digest, put_in_depot(name, depot, digest))

    def tidy(self) -> None:
        """Leave nothing behind for the next task."""
        with os.scandir(self.directory) as entries:
            left = list(entries)
        for entry in left:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, onerror=_insist)
            else:
                os.unlink(entry.path)


def put_in_depot(path: str, depot: str, digest: str) -> str:
    """Move a file to its place in a depot; where that is. What is there already is as good."""
    place = place_in_depot(depot, digest)
    if os.path.exists(place):
        os.unlink(path)
        return place
    try:
        os.rename(path, place)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.rename(path, place)
    return place


def place_in_depot(depot: str | Path, digest: str) -> str:
    return f"{depot}/{digest[:2]}/{digest}"


def _insist(remove: Callable[[str], object], path: str, problem: object) -> None:
    """A task may have taken away its own right to remove what it made."""
    with suppress(OSError):
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        os.chmod(path, stat.S_IRWXU)
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
