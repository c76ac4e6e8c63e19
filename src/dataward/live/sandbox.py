"""A task's private directory: its inputs linked in, its outputs taken out.

An output goes to the depot under its digest followed by a word of its own. So equal files are
separate files: a node that removes one could not know that a process has just relied on it for
another. Small outputs are hashed here, between two tasks; hashing large ones is left to the node,
so that a core does not wait for a disk. Modules that not every task needs are imported where they
are used: a runner process should start fast.
"""

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dataward.live.orders import Input, Written
from dataward.live.outside_links import OutsideLinks
from dataward.live.trees import open_directories, remove_tree
from dataward.model.directories import is_directory, without_slash

if TYPE_CHECKING:
    from dataward.live.packed_tree import Entry

HASHED_HERE_BYTES = 1 << 20
CLOCK_STEP_NS = 20_000_000  # file systems tell time in steps of up to 10 ms
READ_ONLY = 0o444
# Of a file that came from another machine nobody knows whether it is a program, so it may be one:
# for tasks, which run as its owner. Nobody else may execute it, which tells it from a program.
FROM_ELSEWHERE = 0o554
EXECUTABLE = 0o111


def is_program(mode: int) -> bool | None:
    """Whether a file in a depot is a program, as its task left it; None if nobody knows."""
    if mode & 0o111 == FROM_ELSEWHERE & 0o111:
        return None
    return bool(mode & EXECUTABLE)


class BadOutput(Exception):  # noqa: N818 - the task's outcome; its text is the task's error
    """A task did not write an output as it had declared it."""


class InputChanged(Exception):  # noqa: N818
    """A file of the user's has changed since the task began."""


class InputGone(Exception):  # noqa: N818 - answered by having the file made again
    """An input is not in the depot any more: another task wrote to it, or somebody removed it."""


class Sandbox:
    """One directory, used by one task after another; the process's working directory."""

    def __init__(self, directory: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(directory)  # not its parents: if they are gone, the node has ended
        self.directory = os.path.realpath(directory)  # to compare with resolved links
        self._mode = stat.S_IMODE(os.stat(directory).st_mode)
        self._outside = OutsideLinks(f"{self.directory}.links")
        self._own_word = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._moved = 0
        self._linked: dict[str, tuple[int, int]] = {}  # size and time of change, when linked
        self._tidied_ns = 0  # the directory's time of change after it was last tidied
        self._prepared_ns = 0
        os.chdir(self.directory)

    def prepare(self, inputs: Sequence[Input], outputs: Sequence[str]) -> None:
        """Link the inputs in, and make directories for both. Raises as `spoiled` does."""
        self._prepared_ns = time.time_ns()
        self._linked.clear()
        for file in inputs:
            _make_parents(file.name)
            self._linked[file.name] = _fingerprint(file)
            if _is_spoiled(file, self._linked[file.name]):
                # By a task whose runner process has not looked yet: nobody may read the file.
                _remove_spoiled(file)
                raise InputGone(file.name)
            if file.outside:
                self._outside.link(file.path, without_slash(file.name))
            elif is_directory(file.name):
                from dataward.live.packed_tree import unpack

                unpack(file.path, without_slash(file.name))
            else:
                self._link(file)
        for name in outputs:
            _make_parents(name)

    def _link(self, file: Input) -> None:
        try:
            os.link(file.path, file.name)
        except OSError:
            # The file has too many links, or the file system has no hard links.
            os.symlink(file.path, file.name)

    def spoiled(self, inputs: Sequence[Input]) -> tuple[str, ...]:
        """The inputs from the depot that were written to, although they are read-only.

        They are removed before another task reads them. Raises InputGone if an input was removed
        meanwhile, and InputChanged if a file of the user's changed: that cannot be made again.
        """
        found = []
        for file in inputs:
            if _fingerprint(file) != self._linked[file.name]:
                if file.outside:
                    raise InputChanged(
                        f"its input {file.name!r}, which no task makes, was changed while the task "
                        "ran, by the task or by somebody else"
                    )
                found.append(file.name)
                _remove_spoiled(file)
        return tuple(found)

    def take_out(self, outputs: Sequence[str], depot: str) -> tuple[Written, ...]:
        """The declared outputs, taken out: large ones beside the depot, all others into it.

        Raises BadOutput before any is moved.
        """
        places = {os.path.dirname(name) or os.curdir for name in outputs}
        if not all(os.access(place, os.W_OK | os.X_OK) for place in places):
            open_directories(self.directory)  # the task has closed one, or not made it at all
        found = [
            self._entries(name) if is_directory(name) else self._check(name) for name in outputs
        ]
        return tuple(
            self._pack(name, of, depot) if isinstance(of, list) else self._move(name, of, depot)
            for name, of in zip(outputs, found, strict=True)
        )

    def _entries(self, name: str) -> "list[Entry]":
        """What is in a directory."""
        from dataward.live.packed_tree import OddEntry, entries_of

        top = without_slash(name)
        if not os.path.lexists(top):
            raise BadOutput(_not_written(name))
        if not self._is_inside(top):
            raise BadOutput(_leads_out(name, os.readlink(top)))
        if not os.path.isdir(top):
            raise BadOutput(f"it wrote a file where it declares the directory {name!r}")
        try:
            try:
                return entries_of(top, self._is_inside)
            except PermissionError:
                open_directories(top)
                return entries_of(top, self._is_inside)
        except OddEntry as odd:
            raise BadOutput(f"it wrote a directory in which {odd}") from None

    def _is_inside(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self.directory + os.sep)

    def _pack(self, name: str, entries: "list[Entry]", depot: str) -> Written:
        from dataward.live.packed_tree import pack

        word = self._next_word()
        path = f"{depot}/incoming/{word}"
        os.makedirs(f"{depot}/incoming", exist_ok=True)
        for entry in entries:
            if not os.access(entry.path, os.R_OK):
                os.chmod(entry.path, stat.S_IRUSR)
        digest, size_bytes = pack(entries, path)
        os.chmod(path, READ_ONLY)
        modified_ns = os.stat(path).st_mtime_ns
        return Written(
            name, size_bytes, digest, put_in_depot(path, depot, digest, word), modified_ns
        )

    def _next_word(self) -> str:
        self._moved += 1
        return f"{self._own_word}-{self._moved}"

    def _check(self, name: str) -> os.stat_result:
        try:
            found = os.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            raise BadOutput(_not_written(name)) from None
        if stat.S_ISLNK(found.st_mode):
            found = self._follow(name)
        if stat.S_ISDIR(found.st_mode):
            raise BadOutput(
                f"it wrote a directory where it declares the file {name!r}; "
                f"a directory is declared as {name + '/'!r}"
            )
        if not stat.S_ISREG(found.st_mode):
            raise BadOutput(f"what it wrote as {name!r} is not a plain file")
        return found

    def _follow(self, name: str) -> os.stat_result:
        """The status of a link's target, which replaces the link; it must be in this directory."""
        target = os.path.realpath(name)
        found = None
        if target.startswith(self.directory + os.sep):
            with suppress(OSError):  # the target is missing, or the links form a circle
                found = os.stat(target)
        if found is None:
            raise BadOutput(_leads_out(name, os.readlink(name)))
        if stat.S_ISREG(found.st_mode):
            os.unlink(name)
            os.link(target, name)
            found = os.stat(name)
        return found

    def _move(self, name: str, status: os.stat_result, depot: str) -> Written:
        word, size_bytes = self._next_word(), status.st_size
        mode = READ_ONLY | status.st_mode & EXECUTABLE
        if size_bytes > HASHED_HERE_BYTES or status.st_nlink > 1:
            path = f"{depot}/incoming/{word}"
            os.makedirs(f"{depot}/incoming", exist_ok=True)
            if status.st_nlink > 1:  # the file is also an input, or a file of the user's
                import shutil

                shutil.copyfile(name, path)
            else:
                os.rename(name, path)
            os.chmod(path, mode)
            return Written(name, size_bytes, "", path, os.stat(path).st_mtime_ns)
        os.chmod(name, mode)
        digest = _digest(name)
        place = put_in_depot(name, depot, digest, word)
        return Written(name, size_bytes, digest, place, status.st_mtime_ns)

    def tidy(self) -> None:
        """Empty the directory for the next task, or make it again if the task removed it.

        Raises OSError if something cannot be removed, after removing everything else.
        """
        try:
            found = os.stat(self.directory)
            if stat.S_IMODE(found.st_mode) != self._mode:
                os.chmod(self.directory, self._mode)
            changed_ns = found.st_mtime_ns
            if changed_ns == self._tidied_ns < self._prepared_ns - CLOCK_STEP_NS:
                return  # nothing was made here: the directory's time of change would be later
            left = os.listdir(self.directory)
        except FileNotFoundError:
            os.mkdir(self.directory)
            os.chdir(self.directory)
            return
        problem = None
        for name in left:
            try:
                _remove(os.path.join(self.directory, name))
            except OSError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        self._tidied_ns = os.stat(self.directory).st_mtime_ns if left else changed_ns


def _fingerprint(file: Input) -> tuple[int, int]:
    """An input's size and time of change.

    Raises InputGone if it is missing, or InputChanged if it is a file of the user's.

    The link that a task gets shares its mode with the file in the depot, so a task can make the
    file unreadable for others. It is made readable again, before and after each task.
    """
    try:
        status = os.stat(file.path)
    except FileNotFoundError:
        if file.outside:
            raise InputChanged(f"its input {file.name!r} is not there any more") from None
        raise InputGone(file.name) from None
    if file.outside and is_directory(file.name):
        from dataward.live.packed_tree import tree_fingerprint

        return tree_fingerprint(file.path)
    if not (file.outside or status.st_mode & stat.S_IRUSR):
        os.chmod(file.path, READ_ONLY | status.st_mode & EXECUTABLE)
    return status.st_size, status.st_mtime_ns


def _not_written(name: str) -> str:
    return f"it ended well but did not write {name!r}, which it declares as an output"


def _leads_out(name: str, target: str) -> str:
    return f"it wrote {name!r} as a link to {target!r}, which is not in its own directory"


def _remove_spoiled(file: Input) -> None:
    if not file.outside:  # what is outside is the user's, who may have changed it
        with suppress(FileNotFoundError):  # another runner process has seen it too
            os.unlink(file.path)


def _is_spoiled(file: Input, fingerprint: tuple[int, int]) -> bool:
    """Whether a depot's file was written to since it was stored."""
    return bool(file.modified_ns) and fingerprint != (file.size_bytes, file.modified_ns)


def _digest(path: str) -> str:
    from blake3 import blake3

    with open(path, "rb", buffering=0) as file:
        return blake3(file.read()).hexdigest()


def _make_parents(name: str) -> None:
    if "/" in name:
        os.makedirs(os.path.dirname(without_slash(name)) or os.curdir, exist_ok=True)


def put_in_depot(path: str, depot: str, digest: str, word: str) -> str:
    """The path of a file in a depot, where it is moved to."""
    place = place_in_depot(depot, digest, word)
    os.rename(path, place)
    return place


def place_in_depot(depot: str, digest: str, word: str) -> str:
    return f"{depot}/{digest}.{word}"


def digest_in(name: str) -> str:
    """The digest that a file in a depot is named by."""
    return name.partition(".")[0]


def _remove(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        remove_tree(path)
    else:
        os.unlink(path)
