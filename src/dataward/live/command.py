"""Runs one command to its end, and leaves none of its processes running.

The command gets a process group of its own. When its first process ends, all its other processes
are killed, also those that left the group: they have become children of this process, which adopts
orphans.
"""

import errno
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from dataward.live.libc import libc
from dataward.live.orders import Limits, Report
from dataward.model.launch import Launch

TICK_SECONDS = 0.1  # how often a long command's memory and logs are checked
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# A child ended; the socket has something to read. By default, both signals are ignored.
_NEWS = (signal.SIGCHLD, signal.SIGURG)
_ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ)
FULL = (errno.ENOSPC, errno.EDQUOT)
DISK_IS_FULL = "the disk of its directory is full"
_SAID_FULL = tuple(os.strerror(number).encode() for number in FULL)
_LAST_WORDS_BYTES = 4096

FileAction = tuple[int, int, int] | tuple[int, int, str, int, int]


class Streams(NamedTuple):
    """Open files for a command to read from and print to."""

    stdin: int
    stdout: int
    stderr: int
    are_own: bool  # whether they are this process's streams 0, 1 and 2, which a command inherits

    def printed_bytes(self) -> int:
        return os.fstat(self.stdout).st_size + os.fstat(self.stderr).st_size


def adopt_orphans() -> None:
    """Let descendants whose parent ended become children of this process. Linux only."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(yes: bool) -> None:
    """Set whether the system kills this process as soon as its parent is gone. Linux only."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if yes else 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc().prctl(option, value, 0, 0, 0)


@contextmanager
def signals_let_through() -> Iterator[None]:
    """Unblock signals, so that processes started meanwhile by a user's code have none blocked."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEWS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, no end would be reported


class Caller(Protocol):
    """The party that has a command run, and may cancel it meanwhile."""

    def fileno(self) -> int:
        """A socket that becomes readable when `attend` should be called."""
        ...

    def attend(self) -> bool:
        """Whether the command is to be ended, after reading what has arrived."""
        ...

    def patience_seconds(self) -> float:
        """In how many seconds `attend` should be called at the latest."""
        ...


class Commands:
    """Runs one command at a time, and waits for signals while it runs.

    Waiting for signals is one system call. Process handles and a poll would take five, which is a
    tenth of the time that a short command takes.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the parent process may have ignored it
        signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
        _signal_when_readable(caller.fileno())
        self._programs: dict[str, str] = {}
        self._surroundings = dict(os.environb)  # a copy: calls may change the environment
        self._environments: dict[int, Mapping[bytes, bytes]] = {}

    def run(
        self,
        command: tuple[str, ...],
        streams: Streams,
        cores: int,
        limits: Limits,
        launch: Launch | None = None,
        *,
        alone: bool = True,
    ) -> Report:
        """How the command ended.

        ``alone`` says that this process has only one thread: another might take the signals.
        """
        began = time.monotonic()
        try:
            process = self._start(command, streams, cores, launch)
        except OSError as error:
            return Report(time.monotonic(), _not_started(command[0], error), exit_code=127)
        except ValueError as error:  # a NUL in a word
            why = f"its command cannot be started ({error})"
            return Report(time.monotonic(), why, exit_code=127)
        try:
            why = self._watch(process, streams, limits, began, alone)
        except BaseException:  # the node is gone
            _kill_group(process, signal.SIGKILL)
            os.waitpid(process, 0)
            _end_those_left(process)
            raise
        if why:
            _kill_group(process, signal.SIGKILL)
        _, status, usage = os.wait4(process, 0)
        _end_those_left(process)
        killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        now = time.monotonic()
        return Report(
            ended_at=now,
            timed_out=bool(why) and _is_out_of_time(limits, began),
            error=why or _verdict(status, usage.ru_maxrss << 10, limits, streams.stderr),
            exit_code=0 if killed_by else os.WEXITSTATUS(status),
            signal=killed_by,
            wall_seconds=now - began,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_memory_bytes=usage.ru_maxrss << 10,
        )

    def _start(
        self, command: tuple[str, ...], streams: Streams, cores: int, launch: Launch | None
    ) -> int:
        environment = self._environment(cores)
        placed = [] if streams.are_own else _placed(streams)
        path = ""
        if launch is not None:
            path = dict(launch.env).get("PATH", "")
            environment = {
                **environment,
                **{os.fsencode(name): os.fsencode(v) for name, v in launch.env},
            }
            placed += _opened(launch)
        return os.posix_spawn(
            self._program(command[0], path),
            command,
            environment,
            file_actions=placed,
            setpgroup=0,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )

    def _program(self, name: str, own_path: str) -> str:
        """The program's path. A program in the task's own directory must be given with a slash."""
        if "/" in name:
            return name
        if own_path:
            return find_program(name, own_path)
        if name not in self._programs:
            path = self._surroundings.get(b"PATH", os.fsencode(os.defpath))
            self._programs[name] = find_program(name, os.fsdecode(path))
        return self._programs[name]

    def _environment(self, cores: int) -> Mapping[bytes, bytes]:
        known = self._environments.get(cores)
        if known is None:
            # A program that would start a thread for each core of the machine is told its share.
            known = {
                b"OMP_NUM_THREADS": b"%d" % cores,
                **self._surroundings,
                b"DATAWARD_CORES": b"%d" % cores,
            }
            self._environments[cores] = known
        return known

    # --- while it runs ---------------------------------------------------------------------------

    def _watch(
        self, process: int, streams: Streams, limits: Limits, began: float, alone: bool
    ) -> str:
        """Why the command was ended, or "" if its first process ended by itself; waits for that."""
        while True:
            pause = min(_pause_seconds(limits, began), self._caller.patience_seconds())
            if not alone:
                _wait(process, max(0.0, pause), self._caller.fileno())
            else:
                news = signal.sigtimedwait(_NEWS, max(0.0, pause))
                if news is not None and _tells_end(news, process):
                    return ""
            if _has_ended(process):  # pending signals of one kind merge, so one may be missed
                return ""
            why = self._why_end(process, streams, limits, began)
            if why:
                _end(process, limits.grace_seconds)
                return why

    def _why_end(self, process: int, streams: Streams, limits: Limits, began: float) -> str:
        if self._caller.attend():
            return "it was called off"
        if _is_out_of_time(limits, began):
            return ran_too_long(limits.seconds)
        if limits.log_bytes and streams.printed_bytes() > limits.log_bytes:
            return printed_too_much(limits.log_bytes)
        if limits.memory_bytes:
            used = resident_bytes(process)
            if used > limits.memory_bytes:
                return too_much_memory(used, limits.memory_bytes)
        return ""


def _signal_when_readable(file: int) -> None:
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)


def _tells_end(news: signal.struct_siginfo, process: int) -> bool:
    return news.si_signo == signal.SIGCHLD and news.si_pid == process and news.si_code in _ENDED


def _has_ended(process: int) -> bool:
    """Whether the process has ended; it can still be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _placed(streams: Streams) -> list[FileAction]:
    return [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(streams[:3])]


def _opened(launch: Launch) -> list[FileAction]:
    """What opens the files of a launch, in the task's directory, as the command's streams."""
    found: list[FileAction] = []
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if launch.stdin:
        found.append((os.POSIX_SPAWN_OPEN, 0, launch.stdin, os.O_RDONLY, 0))
    if launch.stdout:
        found.append((os.POSIX_SPAWN_OPEN, 1, launch.stdout, writing, 0o666))
    if launch.stderr and launch.stderr == launch.stdout:
        found.append((os.POSIX_SPAWN_DUP2, 1, 2))  # opened twice, each would overwrite the other
    elif launch.stderr:
        found.append((os.POSIX_SPAWN_OPEN, 2, launch.stderr, writing, 0o666))
    return found


def _wait(process: int, seconds: float, *files: int) -> None:
    """Wait until the process ends or a file can be read. Needs no signals, but takes longer."""
    handle = os.pidfd_open(process)
    try:
        poll = select.poll()
        for file in (handle, *files):
            poll.register(file, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        os.close(handle)


def _is_out_of_time(limits: Limits, began: float) -> bool:
    return bool(limits.seconds) and time.monotonic() - began >= limits.seconds


def _pause_seconds(limits: Limits, began: float) -> float:
    if not limits.seconds:
        return TICK_SECONDS
    left = limits.seconds - (time.monotonic() - began)
    return max(0.001, min(TICK_SECONDS, left))


def _end(process: int, grace_seconds: float) -> None:
    """Ask the group to end, and wait a moment for its first process to do so."""
    _kill_group(process, signal.SIGTERM)
    _wait(process, grace_seconds)


def _kill_group(process: int, number: signal.Signals) -> None:
    """Send a signal to the group, whose first process nobody has waited for yet.

    Until then the system gives the group's number to no other process.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)


def _end_those_left(group: int) -> None:
    """Kill and wait for every child of this process, and every orphan that then becomes a child.

    These are all the descendants of the command that still run: mostly none.
    """
    try:
        while True:
            buried, _ = os.waitpid(-1, os.WNOHANG)
            if not buried:
                for child in _children():
                    _kill(child, group)
                os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _kill(child: int, group: int) -> None:
    """Kill a child, or the whole group at once if the child is in the command's group.

    So no process of the group can start another meanwhile.
    """
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(child) == group:
            os.killpg(group, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)


def _children() -> list[int]:
    """The children of every thread of this process: a call's threads may have some too."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found


def resident_bytes(process: int) -> int:
    """The resident memory of a process and all its descendants."""
    import psutil

    try:
        first = psutil.Process(process)
        family = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for one in family:
        with suppress(psutil.Error):
            total += one.memory_info().rss
    return total


# --- what it says --------------------------------------------------------------------------------


def _verdict(status: int, peak_bytes: int, limits: Limits, stderr: int) -> str:
    """Why a command that ended by itself failed; "" if it succeeded."""
    if status == 0:
        return ""
    disk = _disk_full(".") or _disk_found_full(stderr)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL and limits.memory_bytes and peak_bytes > limits.memory_bytes:
            return too_much_memory(peak_bytes, limits.memory_bytes)
        hint = "; the system may have been out of memory" if number == signal.SIGKILL else ""
        return f"it was killed by signal {number} ({signal_name(number)}){disk or hint}"
    return f"it ended with exit code {os.WEXITSTATUS(status)}{disk}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _disk_full(path: str) -> str:
    """A remark if the disk is nearly full, since that is the likely cause; else ""."""
    if is_disk_full(path):
        room = os.statvfs(path)
        return f"; {DISK_IS_FULL} ({_shown(room.f_bavail * room.f_frsize)} left)"
    return ""


def is_disk_full(path: str) -> bool:
    """Whether the disk that has this directory is nearly full."""
    room = os.statvfs(path)
    least = max(1 << 20, room.f_blocks * room.f_frsize // 1000)
    is_without_names = bool(room.f_files) and not room.f_favail
    return room.f_bavail * room.f_frsize < least or is_without_names


def _disk_found_full(stderr: int) -> str:
    """A remark if a command says so itself: it may have made room again before it ended."""
    begin = max(os.fstat(stderr).st_size - _LAST_WORDS_BYTES, 0)
    said = os.pread(stderr, _LAST_WORDS_BYTES, begin)
    return "; it found a disk full" if any(words in said for words in _SAID_FULL) else ""


def _not_started(program: str, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        if "/" in program and os.path.exists(program):
            return f"{program!r} names an interpreter in its #! line that is not there"
        where = "" if "/" in program else " on the PATH"
        return f"there is no command {program!r}{where}"
    if error.errno == errno.EACCES:
        return f"{program!r} is not executable"
    if error.errno == errno.ENOEXEC:
        return f"{program!r} is neither a program nor a script with a #! line"
    if error.errno == errno.E2BIG:
        return "its command is longer than the system allows"
    if error.errno in FULL:
        return DISK_IS_FULL
    return f"{program!r} cannot be started ({error.strerror or error})"


def find_program(name: str, path: str) -> str:
    """The program's path, found by a PATH. Raises PermissionError or FileNotFoundError."""
    error: OSError = FileNotFoundError(errno.ENOENT, "", name)
    for place in path.split(os.pathsep):
        found = os.path.join(place, name)
        if os.path.isfile(found):
            if os.access(found, os.X_OK):
                return found
            error = PermissionError(errno.EACCES, "", name)
    raise error


def ran_too_long(limit_seconds: float) -> str:
    return f"it ran longer than its time limit of {limit_seconds:g} s"


def printed_too_much(limit_bytes: int) -> str:
    return f"it printed more than {_shown(limit_bytes)}, which would fill the disk"


def too_much_memory(used_bytes: int, limit_bytes: int) -> str:
    return f"it used {_shown(used_bytes)} of memory, and may use {_shown(limit_bytes)}"


def _shown(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.4g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.4g} TiB"
