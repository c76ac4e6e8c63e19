"""Records what commands, and all they start, do to the files below a directory.

    python -m power.recorder PLAN.json RECORDING

It is a program of its own, since it waits for whatever process ends, and a test has others. Calls
that nobody has taught it to understand end it: what is recorded is complete or not there.
"""

import json
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from power.effects import (
    ROOT,
    Changed,
    Created,
    Effect,
    Linked,
    Recording,
    Removed,
    Renamed,
    Resized,
    Said,
    Synced,
    SyncedAll,
    Wrote,
)
from power.tracing import MAP_SHARED, Call, Visitor, number_at, place_of, text_at, trace

FOLLOW = 0x400  # AT_SYMLINK_FOLLOW, a flag of linkat
AT_WORK = 0xFFFFFF9C
PROT_WRITE = 2

WRITES = {  # by the number of the argument that is the file
    "write": 0, "writev": 0, "pwrite64": 0, "pwritev": 0, "pwritev2": 0, "sendfile": 0,
    "copy_file_range": 2, "splice": 2,
}  # fmt: skip
AT_AN_OFFSET = ("pwrite64", "pwritev", "pwritev2")
BY_FILE = {
    "ftruncate": 0, "fchmod": 0, "fallocate": 0, "fsync": 0, "fdatasync": 0, "syncfs": 0,
    "mmap": 4, **WRITES,
}  # fmt: skip
# Calls by name: the same as one that is told what its names are relative to.
OLDER = {
    "open": "openat", "creat": "openat", "rename": "renameat", "renameat2": "renameat",
    "mkdir": "mkdirat", "link": "linkat", "unlink": "unlinkat", "rmdir": "unlinkat",
    "symlink": "symlinkat", "chmod": "fchmodat", "fchmodat2": "fchmodat", "mknod": "mknodat",
    "truncate": "truncate", "openat2": "openat2",
}  # fmt: skip


class NotUnderstood(Exception):  # noqa: N818 - says so itself
    """A program has done something to a file that cannot be recorded."""


@dataclass(frozen=True)
class Plan:
    """``commands`` run one after the other in ``root``. What they write to files in ``told`` is
    what they say. A command with a path is killed as soon as something has that path; its end
    is enough."""

    root: str
    told: tuple[str, ...]
    commands: tuple[tuple[tuple[str, ...], str], ...]


def record(plan: Plan, scratch: Path) -> Recording:
    """Have the plan carried out by a recorder, and wait for its end. Raises NotUnderstood."""
    asked, answer = scratch / "plan.json", scratch / "recording"
    asked.write_text(json.dumps(asdict(plan)))
    words = [sys.executable, "-m", "power.recorder", str(asked), str(answer)]
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(words, env={**os.environ, **path}, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise NotUnderstood(done.stderr)
    with answer.open("rb") as file:
        recording = pickle.load(file)
    assert isinstance(recording, Recording)
    return recording


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    commands = tuple((tuple(words), killed_at) for words, killed_at in asked["commands"])
    recording = carry_out(Plan(asked["root"], tuple(asked["told"]), commands))
    with open(sys.argv[2], "wb") as file:
        pickle.dump(recording, file)


def carry_out(plan: Plan) -> Recording:
    watch = Watch(plan.root, plan.told)
    os.chdir(plan.root)
    ends, codes = [], []
    for words, watch.kill_at in plan.commands:
        codes.append(trace(words, watch))
        ends.append(len(watch.effects))
    return Recording(tuple(watch.effects), tuple(ends), tuple(codes))


@dataclass(frozen=True, slots=True)
class Spot:
    """A name in a directory, and what was there before a call."""

    directory: int
    path: str
    found: os.stat_result | None

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


class Watch(Visitor):
    """Understands calls; what is below ``root`` at the beginning counts as safe on the disk."""

    def __init__(self, root: str, told: Sequence[str]) -> None:
        self.effects: list[Effect] = []
        self.kill_at = ""
        self._root = os.path.realpath(root)
        self._told = {os.path.realpath(path): os.path.basename(path) for path in told}
        self._device = os.stat(self._root).st_dev
        self._items = {os.stat(self._root).st_ino: ROOT}
        self._count = 1
        self._spots: list[Spot | None] = []  # of the call under way
        self._note_all(self._root)
        self._add(SyncedAll())

    def _note_all(self, directory: str) -> None:
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            status = entry.stat(follow_symlinks=False)
            parent = self._items[os.stat(directory).st_ino]
            if status.st_ino in self._items:
                self._add(Linked(self._items[status.st_ino], parent, entry.name))
                continue
            item = self._create(Spot(parent, entry.path, None), entry.path)
            if entry.is_dir(follow_symlinks=False):
                self._note_all(entry.path)
            elif entry.is_file(follow_symlinks=False):
                content = Path(entry.path).read_bytes()
                self._add(Wrote(item, 0, content, status.st_mtime_ns))

    # --- calls -----------------------------------------------------------------------------------

    def concerns(self, call: Call) -> bool:
        if call.name == "sync":
            return True
        if call.name in BY_FILE:
            if call.name == "mmap" and not call.arguments[2] & PROT_WRITE:
                return False
            return self._is_watched(_target(call, call.arguments[BY_FILE[call.name]]))
        if call.name == "utimensat" and not call.arguments[1]:
            return self._is_watched(_target(call, call.arguments[0]))
        return any(spot is not None for spot in self._spots_of(call))

    def before(self, call: Call) -> None:
        self._spots = [] if call.name in BY_FILE else self._spots_of(call)

    def after(self, call: Call, result: int) -> bool:
        if result >= 0:
            name = OLDER.get(call.name, call.name)
            handler = getattr(self, f"_after_{'write' if name in WRITES else name}", None)
            if handler is None:
                raise NotUnderstood(f"{call.name} of {self._spots}")
            handler(call, result)
        if not self.kill_at or not isinstance(self.effects[-1], Created | Renamed):
            return False
        named = self._spots[-1] if self._spots else None
        return named is not None and named.path.endswith(f"/{self.kill_at}")

    def _spots_of(self, call: Call) -> list[Spot | None]:
        """The names that a call is about, each None if it is not watched."""
        given, name = call.arguments, OLDER.get(call.name, call.name)
        if name == "sync" or (name == "utimensat" and not given[1]):
            return []
        by_name = call.name in OLDER and call.name not in ("renameat2", "fchmodat2", "openat2")
        if name == "symlinkat":
            places = [(AT_WORK, given[1])] if by_name else [(given[1], given[2])]
        elif name in ("renameat", "linkat"):
            places = [(AT_WORK, given[0]), (AT_WORK, given[1])]
            if not by_name:
                places = [(given[0], given[1]), (given[2], given[3])]
        else:
            places = [(AT_WORK, given[0])] if by_name else [(given[0], given[1])]
        follows = name in ("openat", "fchmodat", "truncate", "utimensat")
        return [self._spot(call.thread, *place, follows=follows) for place in places]

    def _spot(self, thread: int, directory: int, address: int, *, follows: bool) -> Spot | None:
        path = os.path.join(place_of(thread, directory), text_at(thread, address)).rstrip("/")
        if follows:
            path = os.path.realpath(path)
        if follows and path == self._root:
            return Spot(ROOT, path, os.stat(path))
        parent = os.path.realpath(os.path.dirname(path))
        if parent != self._root and not parent.startswith(self._root + os.sep):
            return None
        try:
            number = self._items[os.stat(parent).st_ino]
        except FileNotFoundError:
            return None
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            found = None
        return Spot(number, path, found)

    def _is_watched(self, path: str) -> bool:
        return path.startswith(self._root + os.sep) or path == self._root or path in self._told

    # --- names -----------------------------------------------------------------------------------

    def _after_openat(self, call: Call, result: int) -> None:
        (spot,) = self._spots
        flags = call.arguments[2 if call.name == "openat" else 1]
        if call.name == "creat":
            flags = os.O_CREAT | os.O_TRUNC
        assert spot is not None
        path = f"/proc/{call.thread}/fd/{result}"
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise NotUnderstood(f"a file without a name in {spot}")
        if spot.found is None:
            self._create(spot, path)
        elif flags & os.O_TRUNC and stat.S_ISREG(spot.found.st_mode):
            self._resized(path)

    def _after_mkdirat(self, call: Call, result: int) -> None:
        self._create_named(call)

    def _after_symlinkat(self, call: Call, result: int) -> None:
        self._create_named(call)

    def _create_named(self, call: Call) -> None:
        (spot,) = self._spots
        assert spot is not None
        self._create(spot, spot.path)

    def _create(self, spot: Spot, path: str) -> int:
        status = os.stat(path) if path != spot.path else os.lstat(path)  # an open file is a link
        item, self._count = self._count, self._count + 1
        self._items[status.st_ino] = item
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}.get(
            stat.S_IFMT(status.st_mode)
        )
        if kind is None:
            raise NotUnderstood(f"{path} is neither a file, a directory nor a link")
        target = os.readlink(path) if kind == "link" else ""
        mode = stat.S_IMODE(status.st_mode)
        self._add(Created(item, spot.directory, spot.name, kind, mode, status.st_ino, target))
        return item

    def _after_linkat(self, call: Call, result: int) -> None:
        source, target = self._spots
        if target is None:
            return
        follows = call.name == "linkat" and call.arguments[4] & FOLLOW
        if source is None or source.found is None or (follows and _is_link(source.found)):
            raise NotUnderstood(f"a link at {target} to a file that is not watched")
        self._add(Linked(self._items[source.found.st_ino], target.directory, target.name))

    def _after_renameat(self, call: Call, result: int) -> None:
        source, target = self._spots
        flags = call.arguments[4] if call.name == "renameat2" else 0
        if source is None or target is None or flags & ~1:  # 1: only if the new name is free
            raise NotUnderstood(f"{source} is renamed to {target}, with flags {flags}")
        assert source.found is not None
        if target.found is not None and target.found.st_ino == source.found.st_ino:
            return  # two names of one file: nothing happens, as POSIX wants it
        self._add(Renamed(source.directory, source.name, target.directory, target.name))

    def _after_unlinkat(self, call: Call, result: int) -> None:
        (spot,) = self._spots
        assert spot is not None
        self._add(Removed(spot.directory, spot.name))

    # --- contents --------------------------------------------------------------------------------

    def _after_write(self, call: Call, result: int) -> None:
        file = call.arguments[WRITES[call.name]]
        path = f"/proc/{call.thread}/fd/{file}"
        if call.name in AT_AN_OFFSET:
            offset = call.arguments[3]
        elif call.name in ("copy_file_range", "splice") and call.arguments[3]:
            offset = number_at(call.thread, call.arguments[3]) - result
        else:
            offset = _position(call.thread, file) - result
        told = self._told.get(_target(call, file))
        with open(path, "rb", buffering=0) as written:
            content = os.pread(written.fileno(), result, offset)
        if told is not None:
            self._add(Said(told, content.decode()))
        elif result:
            status = os.stat(path)
            self._add(Wrote(self._items[status.st_ino], offset, content, status.st_mtime_ns))

    def _after_truncate(self, call: Call, result: int) -> None:
        (spot,) = self._spots
        assert spot is not None
        self._resized(spot.path)

    def _after_ftruncate(self, call: Call, result: int) -> None:
        self._resized(f"/proc/{call.thread}/fd/{call.arguments[0]}")

    def _after_fallocate(self, call: Call, result: int) -> None:
        if call.arguments[1]:
            raise NotUnderstood(f"fallocate with mode {call.arguments[1]}")
        self._after_ftruncate(call, result)

    def _resized(self, path: str) -> None:
        status = os.stat(path)
        self._add(Resized(self._items[status.st_ino], status.st_size, status.st_mtime_ns))

    def _after_mmap(self, call: Call, result: int) -> None:
        if call.arguments[3] & MAP_SHARED:
            raise NotUnderstood(f"{_target(call, call.arguments[4])} is written to as memory")

    # --- the rest --------------------------------------------------------------------------------

    def _after_fchmod(self, call: Call, result: int) -> None:
        self._changed(f"/proc/{call.thread}/fd/{call.arguments[0]}")

    def _after_fchmodat(self, call: Call, result: int) -> None:
        (spot,) = self._spots
        assert spot is not None
        self._changed(spot.path)

    def _after_utimensat(self, call: Call, result: int) -> None:
        if self._spots:
            self._after_fchmodat(call, result)
        else:
            self._after_fchmod(call, result)

    def _changed(self, path: str) -> None:
        status = os.stat(path)
        mode = stat.S_IMODE(status.st_mode)
        self._add(Changed(self._items[status.st_ino], mode, status.st_mtime_ns))

    def _after_fsync(self, call: Call, result: int) -> None:
        status = os.stat(f"/proc/{call.thread}/fd/{call.arguments[0]}")
        item = self._items.get(status.st_ino)
        if item is not None and status.st_dev == self._device:
            self._add(Synced(item, call.name == "fdatasync"))

    _after_fdatasync = _after_fsync

    def _after_sync(self, call: Call, result: int) -> None:
        self._add(SyncedAll())

    _after_syncfs = _after_sync

    def _add(self, effect: Effect) -> None:
        self.effects.append(effect)


def _target(call: Call, file: int) -> str:
    """The path of an open file; "" if the thread has no such file."""
    try:
        return os.readlink(f"/proc/{call.thread}/fd/{file & 0xFFFFFFFF}")
    except OSError:
        return ""


def _is_link(status: os.stat_result) -> bool:
    return stat.S_ISLNK(status.st_mode)


def _position(thread: int, file: int) -> int:
    with open(f"/proc/{thread}/fdinfo/{file}") as facts:
        return int(facts.readline().split()[1])


if __name__ == "__main__":
    main()
