"""The book of promises of one user on one machine: what every promised run here has promised.

Each living run has a page, a file with the slots that its cores have promised; pages of runs that
have ended are removed by whoever finds them. Whoever is admitted holds the book's lock from reading
the pages of others until its own is written. A core that a run uses is locked by a file, so that
two promised runs never use it at the same time. Runs without a deadline take no notice of the book.
"""

import ctypes
import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from dataward.deadlines.local_schedule import QueueSlot, reserved
from dataward.deadlines.promising import NodeSchedule
from dataward.live.libc import libc
from dataward.world import OurSlot, TheirSlot

IN_ATTRIB, IN_MOVED_TO, IN_DELETE = 0x4, 0x80, 0x200
IN_NONBLOCK = os.O_NONBLOCK
EVENT_BYTES = 65536


class BookSlot(msgspec.Struct, frozen=True, array_like=True):
    """Time that a run has promised on a core; times are seconds since 1970."""

    core: int
    deadline: float
    seconds: float
    is_ready: bool = False  # whether its task waits for the core


class BookPage(msgspec.Struct, frozen=True):
    """What one run has promised; ``busy`` are the cores that it uses, and until when."""

    pid: int
    created: float  # when the process began: pids are used again
    slots: tuple[BookSlot, ...] = ()
    busy: dict[int, float] = {}

    def is_of_living(self) -> bool:
        import psutil  # here, since runs without a deadline need none of it

        try:
            return abs(psutil.Process(self.pid).create_time() - self.created) < 1.0
        except psutil.Error:
            return False


def book_directory(environment: Mapping[str, str]) -> Path:
    """Where the user's book is on this machine."""
    home = environment.get("HOME") or os.path.expanduser("~")
    state = environment.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return Path(state) / "dataward" / "promises"


class PromiseBook:
    """One run's hold on the book. Several runs of one process have pages of their own."""

    def __init__(self, directory: Path) -> None:
        import psutil

        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        process = psutil.Process()
        self._page = BookPage(process.pid, process.create_time())
        self._path = directory / f"{process.pid}-{time.monotonic_ns()}.page"
        self._locks: dict[int, int] = {}  # by core, the file that locks it
        self._others: list[BookPage] = []
        self._ours: dict[int, BookedCores] = {}
        self._is_closed = False

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Hold the book's lock: nobody else is admitted meanwhile."""
        file = os.open(self._directory / "admission.lock", os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.read()
            yield
        finally:
            os.close(file)

    def read(self) -> None:
        """Read the pages of other runs that live; remove those of runs that do not."""
        self._others = []
        for path in sorted(self._directory.glob("*.page")):
            if path == self._path:
                continue
            try:
                page = msgspec.json.decode(path.read_bytes(), type=BookPage)
            except (OSError, msgspec.MsgspecError):
                continue  # it has just ended
            if page.is_of_living():
                self._others.append(page)
            else:
                with suppress(OSError):
                    path.unlink()

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    def cores(self, cores: Sequence[NodeSchedule], clock: float) -> list[NodeSchedule]:
        """The cores with what others have promised; ``clock`` is 0 on the caller's clock."""
        found = list(cores)
        for number, core in enumerate(found):
            slots = [QueueSlot(s.deadline - clock, s.seconds, None) for s in self._theirs(number)]
            ends = [page.busy[number] - clock for page in self._others if number in page.busy]
            free_from = max([core.free_from, *ends])
            found[number] = replace(core, queue=reserved(core.queue, slots), free_from=free_from)
        return found

    def promised(self, core: int, clock: float) -> list[TheirSlot]:
        return sorted(
            TheirSlot(slot.deadline - clock, slot.seconds, slot.is_ready)
            for slot in self._theirs(core)
        )

    def _theirs(self, core: int) -> list[BookSlot]:
        return [slot for page in self._others for slot in page.slots if slot.core == core]

    # --- our own page ----------------------------------------------------------------------------

    def write(self, slots: Sequence[BookSlot], busy: Mapping[int, float]) -> None:
        """Let others know what we have promised, if that has changed."""
        page = msgspec.structs.replace(self._page, slots=tuple(slots), busy=dict(busy))
        if self._is_closed or (page == self._page and self._path.exists()):
            return
        self._page = page
        draft = self._path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(page))
        draft.rename(self._path)

    def enter(self, cores: "BookedCores") -> None:
        """Have the page tell of these cores, once their node has said what it has promised."""
        self._ours[cores.first] = cores

    def flush(self) -> None:
        """Write our page, if anything has changed."""
        ours = list(self._ours.values())
        if ours and all(cores.is_told for cores in ours):
            busy = {core: until for cores in ours for core, until in cores.busy.items()}
            self.write([slot for cores in ours for slot in cores.slots()], busy)

    def close(self) -> None:
        """Give back all cores, and take our page out of the book; safe to call again."""
        self._is_closed = True
        for core in list(self._locks):
            self.give_back(core)
        with suppress(OSError):
            self._path.unlink()

    # --- cores -----------------------------------------------------------------------------------

    def take(self, core: int) -> bool:
        """Use a core from now on. False if another promised run uses it."""
        path = self._core_file(core)
        file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._locks[core] = file
        return True

    def give_back(self, core: int) -> None:
        file = self._locks.pop(core, None)
        if file is not None:
            os.close(file)
            with suppress(OSError):
                os.utime(self._core_file(core))  # others who wait for it notice that

    def _core_file(self, core: int) -> Path:
        return self._directory / f"core-{core}.lock"

    # --- news ------------------------------------------------------------------------------------

    def watch(self) -> int:
        """A file that can be read when a page has changed or a core was given back."""
        file = int(libc().inotify_init1(IN_NONBLOCK | os.O_CLOEXEC))
        path = os.fsencode(self._directory)
        if (
            file < 0
            or libc().inotify_add_watch(file, path, IN_ATTRIB | IN_MOVED_TO | IN_DELETE) < 0
        ):
            raise OSError(ctypes.get_errno(), "the book of promises cannot be watched")
        return file


def drain_news(file: int) -> None:
    with suppress(BlockingIOError):
        while os.read(file, EVENT_BYTES):
            pass


class BookedCores:
    """The cores of one node, as the book has them; ``first`` is the node's first core there."""

    def __init__(self, book: PromiseBook, first: int, now: float) -> None:
        self._book = book
        self.first = first
        self._clock = time.time() - now  # seconds since 1970 when the run's clock was 0
        self._queues: Sequence[Sequence[OurSlot]] = ()
        self._wanted: Mapping[int, float] = {}
        self._busy: dict[int, float] = {}
        book.enter(self)

    def promised(self, core: int) -> Sequence[TheirSlot]:
        return self._book.promised(self.first + core, self._clock)

    def take(self, core: int, until: float) -> bool:
        if not self._book.take(self.first + core):
            return False
        self._busy[self.first + core] = round(self._clock + until, 3)
        return True

    def give_back(self, core: int) -> None:
        self._busy.pop(self.first + core, None)
        self._book.give_back(self.first + core)

    def tell(self, queues: Sequence[Sequence[OurSlot]], wanted: Mapping[int, float]) -> None:
        is_news = wanted != self._wanted
        self._queues, self._wanted = queues, wanted
        if is_news and self._book.has_others:
            self._book.flush()

    @property
    def is_told(self) -> bool:
        """Whether the node has said what it has promised."""
        return bool(self._queues)

    @property
    def busy(self) -> Mapping[int, float]:
        return self._busy

    def slots(self) -> Iterator[BookSlot]:
        for core, queue in enumerate(self._queues):
            for deadline, seconds, _ in queue:
                is_ready = self._wanted.get(core) == deadline
                number, at = self.first + core, round(deadline + self._clock, 3)
                yield BookSlot(number, at, round(seconds, 3), is_ready)
