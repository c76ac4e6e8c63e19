"""The process that runs tasks, one after another, for one slot of a node.

It starts with few modules loaded, and has a private directory. When its node is gone, for whatever
reason, it ends the task that it runs, and then itself.
"""

import os
import select
import sys
import time
from contextlib import suppress
from math import inf
from types import ModuleType

from dataward.live.command import (
    DISK_IS_FULL,
    FULL,
    Commands,
    Streams,
    adopt_orphans,
    die_with_parent,
    printed_too_much,
    signals_let_through,
)
from dataward.live.orders import Cancel, Frames, Order, Report, framed
from dataward.live.sandbox import BadOutput, InputChanged, InputGone, Sandbox
from dataward.model.launch import Launch

RECEIVE_BYTES = 1 << 16  # a larger buffer would be mapped and unmapped for every message


class NodeGone(Exception):  # noqa: N818 - the one reason to end
    """The other end of the socket is closed."""


class Line:
    """The socket to the node: orders, cancels and recalls come in, reports go out.

    A report is sent at once if no more orders are waiting; otherwise it may wait for the next
    reports, up to its order's ``hold_seconds``.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)
        self._frames = Frames()
        self._orders: dict[int, Order] = {}
        self._number = 0  # of the order under way
        self._hold_seconds = 0.0
        self._cancelled = False
        self._held: list[tuple[int, Report]] = []
        self._held_until = inf

    def fileno(self) -> int:
        return self._file

    def next_order(self) -> Order:
        """The next order to carry out; waits for one if need be. Raises NodeGone."""
        while not self._orders:
            self._send()
            self._receive()
        self._cancelled = False
        self._number = next(iter(self._orders))
        order = self._orders.pop(self._number)
        self._hold_seconds = order.hold_seconds
        return order

    def attend(self) -> bool:
        """Whether the order under way was cancelled. Raises NodeGone.

        Reads what the node has sent, without waiting, and sends reports that are due.
        """
        while self._poll.poll(0):
            self._receive()
        if self._held and self.patience_seconds() <= 0:
            self._send()
        return self._cancelled

    def patience_seconds(self) -> float:
        """In how many seconds `attend` must be called, even if the node sends nothing."""
        return self._held_until - time.monotonic() if self._held else inf

    def answer(self, report: Report) -> None:
        self._held_until = min(self._held_until, report.ended_at + self._hold_seconds)
        self._held.append((self._number, report))
        if not self._orders:
            self.attend()
        if not self._orders or self.patience_seconds() <= 0:
            self._send()

    def _receive(self) -> None:
        try:
            data = os.read(self._file, RECEIVE_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise NodeGone
        for number, message in self._frames.add(data):
            if isinstance(message, Order):
                self._orders[number] = message
            elif self._orders.pop(number, None) is not None:
                self._held.append((number, Report(not_begun=True)))
                self._send()
            elif number == self._number and isinstance(message, Cancel):
                self._cancelled = True

    def _send(self) -> None:
        if self._held:
            data, self._held, self._held_until = framed(self._held), [], inf
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                raise NodeGone from error


class Logs:
    """Where a task prints: files on this process's own streams 1 and 2, which the task inherits.

    A file is kept if something was printed to it; else the next task uses it. Stream 0 is empty.
    """

    def __init__(self, directory: str) -> None:
        self._paths = (f"{directory}.out", f"{directory}.err")
        self._files = [_new_file(path) for path in self._paths]
        self._terminal = [os.dup(1), os.dup(2)]  # where the node prints
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._are_files: bool | None = None  # None: unknown

    def print_to_files(self, yes: bool) -> None:
        """Send what is printed from now on to the files or, if not, to where the node prints."""
        if yes is not self._are_files:
            self._are_files = yes
            streams = (self._nothing, *(self._files if yes else self._terminal))
            for number, file in enumerate(streams):
                os.dup2(file, number)

    def restore(self) -> None:
        """Set the streams again: a call may have replaced or closed them."""
        self._are_files = None
        self.print_to_files(False)

    def streams(self) -> Streams:
        out, err = self._files
        return Streams(self._nothing, out, err, are_own=bool(self._are_files))

    def is_too_long(self, bytes_max: int) -> bool:
        sizes = [os.lseek(file, 0, os.SEEK_END) for file in self._files]
        return 0 < bytes_max < sum(sizes)

    def keep(self, stem: str, bytes_max: int) -> None:
        """Rename the files that were printed to, and open new ones. Overlong files are cut off."""
        for i, path in enumerate(self._paths):
            size = os.lseek(self._files[i], 0, os.SEEK_END)
            if not size:
                continue
            if bytes_max and size > bytes_max:
                os.ftruncate(self._files[i], bytes_max)
            try:
                if stem:
                    os.rename(path, f"{stem}{path[-4:]}")
            finally:  # in any case, the next task must not get what this one printed
                new = _new_file(path)
                os.dup2(new, self._files[i], inheritable=False)
                os.close(new)
                if self._are_files:
                    os.dup2(self._files[i], i + 1)


def _new_file(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)


class RunnerProcess:
    def __init__(self, line: Line, directory: str) -> None:
        """Raises NodeGone."""
        self._line = line
        try:
            self._sandbox = Sandbox(directory)
        except FileNotFoundError as error:  # the parent directory was removed by a node that ended
            raise NodeGone from error
        self._logs = Logs(directory)
        self._commands = Commands(line)
        self._calls: ModuleType | None = None
        self._has_company = False  # whether calls have left threads behind
        self._umask = os.umask(0o022)
        os.umask(self._umask)

    def serve(self) -> None:
        """Carry out orders until the node is gone. Always ends by raising NodeGone."""
        try:
            while True:
                self._serve_next()
        finally:
            self._logs.print_to_files(False)  # anything printed now is for the node's user

    def _serve_next(self) -> None:
        order = self._line.next_order()
        try:
            report = self._carry_out(order)
        except NodeGone:
            raise
        except InputGone as gone:
            report = Report(time.monotonic(), gone=str(gone))
        except InputChanged as changed:
            report = Report(time.monotonic(), str(changed), exit_code=1)
        except OSError as error:
            report = Report(time.monotonic(), _surroundings(error), exit_code=1)
        if report.error:
            self._tidy_up(order)  # before answering: it may have filled the disk the node needs
        self._line.answer(report)
        self._tidy_up(order)  # while the node is busy with the report

    def _carry_out(self, order: Order) -> Report:
        self._sandbox.prepare(order.inputs, order.outputs)
        # A thread that a call has left behind must not print into the logs of other tasks.
        self._logs.print_to_files(bool(order.logs) and (order.is_calls or not self._has_company))
        try:
            report = self._run(order)
        finally:
            self._logs.keep(order.logs, order.limits.log_bytes)
        if report.error and order.launch and order.logs:
            _keep_streams(order.launch, order.logs, order.limits.log_bytes)
        return report

    def _run(self, order: Order) -> Report:
        if order.is_calls:
            report = self._call(order)
        else:
            streams = self._logs.streams()
            report = self._commands.run(
                order.command, streams, order.cores, order.limits, order.launch,
                alone=not self._has_company,
            )  # fmt: skip
        if not report.error and self._logs.is_too_long(order.limits.log_bytes):
            report = report._replace(error=printed_too_much(order.limits.log_bytes))
        spoiled = self._sandbox.spoiled(order.inputs) if order.inputs else ()
        if spoiled:
            error = f"it wrote to its input {spoiled[0]!r}, or another task that reads it did"
            report = report._replace(error=error, spoiled=spoiled)
        if order.outputs and not report.error:
            try:
                written = self._sandbox.take_out(order.outputs, order.depot)
            except BadOutput as bad:
                report = report._replace(error=str(bad))
            else:
                report = report._replace(outputs=written, ended_at=time.monotonic())
        return report

    def _call(self, order: Order) -> Report:
        """The report of calls, which are made in this process.

        The node ends calls by killing the process, so nothing is read from the socket meanwhile.
        """
        if self._calls is None:
            self._calls = _load_calls()
        die_with_parent(True)
        began, cpu = time.monotonic(), time.process_time()
        with signals_let_through():
            error = self._calls.make(
                order.command, order.outputs, order.limits.seconds, self._restore
            )
        self._restore()
        self._has_company = len(os.listdir("/proc/self/task")) > 1
        die_with_parent(False)
        now = time.monotonic()
        return Report(
            ended_at=now,
            error=error,
            exit_code=1 if error else 0,
            wall_seconds=now - began,
            cpu_seconds=time.process_time() - cpu,
        )

    def _restore(self) -> None:
        """Undo what functions may have done to the directory, the umask and the streams."""
        os.chdir(self._sandbox.directory)
        os.umask(self._umask)
        self._logs.restore()

    def _tidy_up(self, order: Order) -> None:
        try:
            self._sandbox.tidy()
        except OSError as error:
            self._logs.print_to_files(False)
            print(f"dataward: {order.task}: cannot tidy up ({error})", file=sys.stderr)


def _keep_streams(launch: Launch, stem: str, bytes_max: int) -> None:
    """Make logs of what a failed command has printed to files: the files would be thrown away."""
    for file, suffix in ((launch.stderr, ".err"), (launch.stdout, ".out")):
        if os.path.isfile(file) and not os.path.islink(file) and os.path.getsize(file):
            with suppress(OSError):  # the task's own error is the one to tell
                if 0 < bytes_max < os.path.getsize(file):
                    os.truncate(file, bytes_max)
                os.rename(file, stem + suffix)


def _surroundings(error: OSError) -> str:
    if error.errno in FULL:
        return DISK_IS_FULL
    what = f" ({error.filename})" if error.filename else ""
    return f"its directory could not be prepared or emptied: {error.strerror or error}{what}"


def _load_calls() -> ModuleType:
    """The module that makes calls, loaded when first needed.

    Then the empty dataward package is dropped: a function that imports dataward gets the real one.
    """
    from dataward.live import making_calls

    for name in [name for name in sys.modules if name.partition(".")[0] == "dataward"]:
        del sys.modules[name]
    return making_calls


def main() -> None:
    """Run as ``python -c BOOT file-descriptor directory package``, started by `runner_pool`."""
    line = int(sys.argv[1])
    os.set_inheritable(line, False)  # else a command that outlives this process keeps it open
    sys.path[:] = [place for place in sys.path if place]  # "" would be the directory of a task
    adopt_orphans()
    try:
        RunnerProcess(Line(line), sys.argv[2]).serve()
    except NodeGone:
        pass
    except KeyboardInterrupt:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)
