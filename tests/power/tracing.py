"""Runs a command and stops it, and every process it starts, at the system calls asked for.

This is what strace does, by the same means (ptrace and a seccomp filter), without being a program
that has to be installed. What a call means is left to the `Visitor`.
"""

import ctypes
import os
import platform
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ESRCH
from pathlib import Path
from struct import Struct

_CONT, _SYSCALL, _SEIZE, _LISTEN, _SYSCALL_INFO = 7, 24, 0x4206, 0x4208, 0x420E
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000  # sysgood, children, exec, seccomp, kill
_EVENT_SECCOMP, _EVENT_STOP = 7, 128
_WALL = 0x40000000
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

_ARCHITECTURE = 0xC000003E  # AUDIT_ARCH_X86_64: the numbers of calls below are of this one
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _TRACE = 0x7FFF0000, 0x7FF00000
_INSTRUCTION = Struct("=HBBI")
_INFO = Struct("=B3xIQQ")
_ENTRY = Struct("=Q6Q")
_EXIT = Struct("=q?")

CREATE_OR_TRUNCATE = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
MAP_SHARED = 1

CALLS = {
    "write": 1, "open": 2, "mmap": 9, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74,
    "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84,
    "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "fchmod": 91, "mknod": 133,
    "sync": 162, "openat": 257, "mkdirat": 258, "mknodat": 259, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "fchmodat": 268, "splice": 275, "utimensat": 280,
    "fallocate": 285, "pwritev": 296, "syncfs": 306, "renameat2": 316, "copy_file_range": 326,
    "pwritev2": 328, "openat2": 437, "fchmodat2": 452,
}  # fmt: skip
NAMES = {number: name for name, number in CALLS.items()}

# Of these calls, only those that have one of the bits in the argument of that number.
_ONLY_WITH = {
    "open": (1, CREATE_OR_TRUNCATE),
    "openat": (2, CREATE_OR_TRUNCATE),
    "mmap": (3, MAP_SHARED),
}


def why_impossible() -> str:
    """Why no command can be traced here, or "" if it can be."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return "system calls are followed on Linux on x86_64 only"
    try:
        status = trace(["true"], Visitor())
    except OSError as error:
        return f"system calls cannot be followed here ({error})"
    return "" if status == 0 else f"a traced command ended with {status}"


@dataclass(frozen=True)
class Call:
    """A system call that a thread is about to make."""

    thread: int
    name: str
    arguments: tuple[int, ...]


class Visitor:
    """Calls that concern the visitor are made one at a time, so their order is the true one."""

    def concerns(self, call: Call) -> bool:
        """Whether the call matters. Others go on at once: some of them wait for each other."""
        return False

    def before(self, call: Call) -> None:
        """The call is about to be made; nothing that matters happens until it is over."""

    def after(self, call: Call, result: int) -> bool:
        """The call is over; its thread waits. If this is True, the command is killed."""
        return False


def trace(command: Sequence[str], visitor: Visitor) -> int:
    """Run the command to its end, and that of all it started; its exit code, or minus a signal.

    It must be the only one who waits for processes.
    """
    return _Tracer(visitor).run(command)


class _Tracer:
    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._libc.ptrace.argtypes = [ctypes.c_long] * 4
        self._threads: set[int] = set()
        self._current: Call | None = None
        self._held: deque[Call] = deque()
        self._main = 0

    def run(self, command: Sequence[str]) -> int:
        ready, go = os.pipe()
        self._main = os.fork()
        if not self._main:
            self._become(command, ready)
        os.close(ready)
        try:
            self._ask(_SEIZE, self._main, 0, _OPTIONS)
        except OSError:
            os.kill(self._main, signal.SIGKILL)
            os.waitpid(self._main, 0)
            raise
        os.write(go, b"!")
        os.close(go)
        self._threads.add(self._main)
        code = 0
        while self._threads:
            thread, status = os.waitpid(-1, _WALL)
            if os.WIFSTOPPED(status):
                self._threads.add(thread)
                self._on_stop(thread, status >> 8)
                continue
            self._threads.discard(thread)
            self._forget(thread)
            if thread == self._main:
                code = os.waitstatus_to_exitcode(status)
        return code

    def _become(self, command: Sequence[str], ready: int) -> None:
        try:
            os.read(ready, 1)
            program = b"".join(_filter())
            code = ctypes.create_string_buffer(program)
            head = Struct("=H6xQ").pack(len(program) // _INSTRUCTION.size, ctypes.addressof(code))
            self._libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            if self._libc.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(head), 0, 0) == 0:
                os.execvp(command[0], list(command))
        finally:
            os._exit(127)

    # --- stops -----------------------------------------------------------------------------------

    def _on_stop(self, thread: int, stop: int) -> None:
        number, event = stop & 0xFF, stop >> 8
        if event == _EVENT_SECCOMP:
            self._on_entry(self._call(thread))
        elif number == signal.SIGTRAP | 0x80:
            self._on_exit(thread)
        elif event == _EVENT_STOP and number in _STOPPING:
            self._ask(_LISTEN, thread)
        elif event or number == signal.SIGTRAP:
            self._ask(_CONT, thread)
        else:
            self._ask(_CONT, thread, 0, number)  # a signal, which goes to whom it was sent to

    def _on_entry(self, call: Call | None) -> None:
        if call is None:
            return  # killed since
        if not self._visitor.concerns(call):
            self._ask(_CONT, call.thread)
        elif self._current is None:
            self._let(call)
        else:
            self._held.append(call)

    def _let(self, call: Call) -> None:
        self._current = call
        self._visitor.before(call)
        self._ask(_SYSCALL, call.thread)

    def _on_exit(self, thread: int) -> None:
        call = self._current
        assert call is not None
        assert call.thread == thread
        info = self._info(thread)
        if info is not None:
            result, _ = _EXIT.unpack_from(info, _INFO.size)
            if self._visitor.after(call, result):
                os.kill(self._main, signal.SIGKILL)
        self._ask(_CONT, thread)
        self._next()

    def _next(self) -> None:
        self._current = None
        if self._held:
            self._let(self._held.popleft())

    def _forget(self, thread: int) -> None:
        self._held = deque(call for call in self._held if call.thread != thread)
        if self._current is not None and self._current.thread == thread:
            self._next()

    # --- what is asked of the system -------------------------------------------------------------

    def _call(self, thread: int) -> Call | None:
        info = self._info(thread)
        if info is None:
            return None
        number, *arguments = _ENTRY.unpack_from(info, _INFO.size)
        return Call(thread, NAMES[number], tuple(arguments))

    def _info(self, thread: int) -> bytes | None:
        buffer = ctypes.create_string_buffer(128)
        asked = self._ask(_SYSCALL_INFO, thread, len(buffer), ctypes.addressof(buffer))
        return buffer.raw if asked else None

    def _ask(self, request: int, thread: int, address: int = 0, data: int = 0) -> bool:
        """Whether the thread is still there."""
        if self._libc.ptrace(request, thread, address, data) >= 0:
            return True
        error = ctypes.get_errno()
        if error != ESRCH:
            raise OSError(error, os.strerror(error))
        return False


def _filter() -> list[bytes]:
    """The program that decides, in the kernel, at which calls to stop."""

    def line(code: int, number: int, then: int = 0, otherwise: int = 0) -> bytes:
        return _INSTRUCTION.pack(code, then, otherwise, number)

    stop, go_on = line(_RETURN, _TRACE), line(_RETURN, _ALLOW)
    program = [line(_LOAD, 4), line(_EQUAL, _ARCHITECTURE, then=1), go_on, line(_LOAD, 0)]
    for name, number in CALLS.items():
        if name in _ONLY_WITH:
            argument, bits = _ONLY_WITH[name]
            program += [
                line(_EQUAL, number, otherwise=4),
                line(_LOAD, 16 + 8 * argument),
                line(_ANY_BIT, bits, otherwise=1),
                stop,
                go_on,
            ]
        else:
            program += [line(_EQUAL, number, otherwise=1), stop]
    return [*program, go_on]


def text_at(thread: int, address: int) -> str:
    """The file name that is at an address of a thread."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        found = b""
        while b"\0" not in found:
            # Not further than a page's end: what comes after it may be nobody's.
            piece = memory.read(4096 - (address + len(found)) % 4096)
            found += piece
        return os.fsdecode(found.partition(b"\0")[0])


def number_at(thread: int, address: int) -> int:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(8), "little")


def place_of(thread: int, directory: int) -> Path:
    """What a relative name is relative to."""
    at_work = directory & 0xFFFFFFFF == 0xFFFFFF9C  # AT_FDCWD
    return Path(f"/proc/{thread}/cwd" if at_work else f"/proc/{thread}/fd/{directory & 0x7FFFFFFF}")
