"""Runs one command to its end, and sees that nothing of it is left.

The command gets a process group of its own. When its first process ends, all that it has left
running is killed, whether it stayed in the group or not: this process is the one that orphans fall
to.
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

TICK_SECONDS = 0.1  # how often a long command's memory and logs are looked at
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# A child ended, or there is something to read. Where nobody waits for these, nothing happens.
_NEWS = (signal.SIGCHLD, signal.SIGURG)
_ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Streams(NamedTuple):
    """Open files for a command to read from and print to."""

    stdin: int
    stdout: int
    stderr: int
    are_own: bool  # whether they are this process's own streams too, which a command inherits

    def printed_bytes(self) -> int:
        return os.fstat(self.stdout).st_size + os.fstat(self.stderr).st_size


def adopt_orphans() -> None:
    """Let processes whose parent ended become children of this one. Linux only."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(yes: bool) -> None:
    """Have the system kill this process as soon as its parent is gone, or not. Linux only."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if yes else 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc().prctl(option, value, 0, 0, 0)


@contextmanager
def signals_let_through() -> Iterator[None]:
    """Processes that are started meanwhile, by somebody else's code, shall find none blocked."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEWS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it is told of no end


class Caller(Protocol):
    """Whoever has a command run, and may call it off meanwhile."""

    def fileno(self) -> int:
        """A socket that becomes readable when there is something to attend to."""
        ...

    def attend(self) -> bool:
        """See to what there is. Whether the command is to be ended."""
        ...

    def patience_seconds(self) -> float:
        """How soon to attend to it in any case."""
        ...


class Commands:
    """Runs one at a time, and waits for signals meanwhile: one system call, where handles of
    processes and a poll would take five, a tenth of the time that goes into a short command.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may have ignored it
        signal.pthread_sigmask(signal.SIG_BLOCK, _NEWS)
        _signal_when_readable(caller.fileno())
        self._programs: dict[str, str] = {}
        self._surroundings = dict(os.environb)  # as they are now: calls may change them
        self._environments: dict[int, Mapping[bytes, bytes]] = {}

    def run(
        self,
        command: tuple[str, ...],
        streams: Streams,
        cores: int,
        limits: Limits,
        *,
        alone: bool = True,
    ) -> Report:
        """``alone`` says that this process has but one thread: another might take the signals."""
        began = time.monotonic()
        try:
            process = self._start(command, streams, cores)
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
            error=why or _verdict(status, usage.ru_maxrss << 10, limits),
            exit_code=0 if killed_by else os.WEXITSTATUS(status),
            signal=killed_by,
            wall_seconds=now - began,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_memory_bytes=usage.ru_maxrss << 10,
        )

    def _start(self, command: tuple[str, ...], streams: Streams, cores: int) -> int:
        return os.posix_spawn(
            self._program(command[0]),
            command,
            self._environment(cores),
            file_actions=() if streams.are_own else _placed(streams),
            setpgroup=0,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )

    def _program(self, name: str) -> str:
        """Where the program is. One in the task's own directory must be given with a slash."""
        if "/" in name:
            return name
        if name not in self._programs:
            path = self._surroundings.get(b"PATH", os.fsencode(os.defpath))
            self._programs[name] = find_program(name, os.fsdecode(path))
        return self._programs[name]

    def _environment(self, cores: int) -> Mapping[bytes, bytes]:
        known = self._environments.get(cores)
        if known is None:
            # A program that would start a thread per core of the machine gets told its share.
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
        """Wait until the first process ends, or must be ended: then why."""
        while True:
            pause = min(_pause_seconds(limits, began), self._caller.patience_seconds())
            if not alone:
                _wait(process, max(0.0, pause), self._caller.fileno())
            else:
                news = signal.sigtimedwait(_NEWS, max(0.0, pause))
                if news is not None and _tells_end(news, process):
                    return ""
            if _has_ended(process):  # signals of one kind are not counted, so one may be missed
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
    """It is still there to be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _placed(streams: Streams) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(streams[:3])]


def _wait(process: int, seconds: float, *files: int) -> None:
    """Until it ends or one of the files can be read. Needs no signals, but takes longer."""
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
    """Before its first process is waited for: until then, nobody else can have the number."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)


def _end_those_left(group: int) -> None:
    """Kill and bury whoever has fallen to this process, and whoever then falls to it.

    That is all who descend from the command and live on: mostly nobody.
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
    """The command's own group at once, so that none of it can start another meanwhile."""
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(child) == group:
            os.killpg(group, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)


def _children() -> list[int]:
    """Of every thread: those of a call may have some too."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found


def resident_bytes(process: int) -> int:
    """What a process and all that descend from it have in memory."""
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


def _verdict(status: int, peak_bytes: int, limits: Limits) -> str:
    """Why a command that ended by itself did not end well; empty if it did."""
    if status == 0:
        return ""
    disk = _disk_full(".")
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
    """A remark if there is next to no room left: what most likely went wrong."""
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    if free < max(1 << 20, room.f_blocks * room.f_frsize // 1000) or (
        room.f_files and not room.f_favail
    ):
        return f"; the disk of its directory is full ({_shown(free)} left)"
    return ""


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
        return "its command has more words than the system takes"
    if error.errno in _FULL:
        return "the disk of its directory is full"
    return f"{program!r} cannot be started ({error.strerror or error})"


def find_program(name: str, path: str) -> str:
    """Where on such a PATH it is. Raises PermissionError or FileNotFoundError."""
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
