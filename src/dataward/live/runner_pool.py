"""A node's runner processes: as many as can be busy at once, started when first needed."""

import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from dataward.live.command import signal_name
from dataward.live.leftovers import kill_processes_in
from dataward.live.orders import Cancel, Frames, Order, Report, decode_report, framed

# A process for tasks needs a handful of modules. The package's own ``__init__`` would load numpy
# and much else, a tenth of a second for each: an empty package takes its place until all is
# loaded, and is forgotten, so that functions which import dataward get the real one.
_BOOT = """\
import sys, types
package = sys.modules["dataward"] = types.ModuleType("dataward")
package.__path__ = [sys.argv[3]]
from dataward.live.runner_process import main
for name in [n for n in sys.modules if n.partition(".")[0] == "dataward"]:
    del sys.modules[name]
main()
"""
_PACKAGE = str(Path(__file__).parents[1])

RAN_TOO_LONG = "it ran longer than its time limit of"


class ProcessDied(Exception):  # noqa: N818 - answered by running the task elsewhere
    """A runner process ended under its task; the text says how."""


class RunnerConnection(asyncio.Protocol):
    """One runner process, as its node sees it."""

    def __init__(self, pid: int, directory: Path) -> None:
        self.pid = pid
        self._directory = directory
        self._is_closed = False
        self.is_gone = False
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._report: asyncio.Future[Report] | None = None
        self._pidfd = -1
        self._limit_seconds = 0.0  # of the calls it makes, for which it sets itself an alarm
        self.on_idle_after_cancel: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are of no such class

    def data_received(self, data: bytes) -> None:
        for message in self._frames.add(data):
            waiting, self._report = self._report, None
            if waiting is None or waiting.done():
                self.on_idle_after_cancel()
            else:
                waiting.set_result(decode_report(message))

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_gone = True
        if self._is_closed:
            return  # it ends what it runs, then itself
        how = self._how_it_ended()
        kill_processes_in(self._directory)
        waiting, self._report = self._report, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(ProcessDied(how))

    def _how_it_ended(self) -> str:
        with suppress(ProcessLookupError):
            # It closed its end, so it is as good as dead; and so are those that its calls started.
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            _, status = os.waitpid(self.pid, 0)
            if os.WIFSIGNALED(status):
                number = os.WTERMSIG(status)
                if number == signal.SIGALRM and self._limit_seconds:
                    return f"{RAN_TOO_LONG} {self._limit_seconds:g} s"
                return f"its process was killed by signal {number} ({signal_name(number)})"
            return f"its process ended with exit code {os.WEXITSTATUS(status)}"
        return "its process is gone"

    async def carry_out(self, order: Order) -> Report:
        """Raises ProcessDied."""
        if self.is_gone or self._transport is None:
            raise ProcessDied("its process is gone")
        self._report = asyncio.get_running_loop().create_future()
        self._limit_seconds = order.limits.seconds if order.is_calls else 0.0
        self._transport.write(framed(order))
        return await self._report

    def cancel(self, order: Order) -> None:
        """End what it runs. Calls cannot be ended but with their process."""
        if order.is_calls:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        elif self._transport is not None:
            self._transport.write(framed(Cancel()))

    def watch(self) -> None:
        """Notice its end even if a fork of it, made by a call, holds the socket open."""
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    def _on_end(self) -> None:
        self._unwatch()
        if self._transport is not None:
            self._transport.close()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self) -> None:
        self._is_closed = True
        self._unwatch()
        if self._transport is not None:
            self._transport.close()


class RunnerPool:
    """Hands out processes, most recently used first: their caches are warm."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._idle: deque[RunnerConnection] = deque()
        self._all: dict[int, RunnerConnection] = {}
        self._started = 0

    async def start(self, count: int) -> None:
        """Have so many processes start, while there is other work to be done."""
        for _ in range(count):
            self._idle.append(await self._start())

    async def carry_out(self, order: Order) -> Report:
        """Run a task in one of the processes. Cancelling this ends the task.

        Raises ProcessDied if the process ends before the task does.
        """
        process = await self._take()
        try:
            report = await process.carry_out(order)
        except asyncio.CancelledError:
            process.on_idle_after_cancel = lambda: self._give_back(process)
            process.cancel(order)
            raise
        except ProcessDied:
            del self._all[process.pid]
            raise
        self._give_back(process)
        return report

    async def _take(self) -> RunnerConnection:
        while self._idle:
            process = self._idle.pop()
            if not process.is_gone:
                return process
            del self._all[process.pid]
        return await self._start()

    def _give_back(self, process: RunnerConnection) -> None:
        self._idle.append(process)

    async def _start(self) -> RunnerConnection:
        self._started += 1
        ours, theirs = socket.socketpair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            directory = self._directory / str(self._started)
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), str(directory), _PACKAGE],
                os.environ,
                setpgroup=0,  # Ctrl-C at the terminal is for the node to heed
            )
        connection = RunnerConnection(pid, directory)
        self._all[pid] = connection
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        connection.watch()
        return connection

    def close(self) -> None:
        """End every process, and what it runs. Their ends are waited for in `wait`."""
        for process in self._all.values():
            process.close()

    def wait(self) -> None:
        """Bury the processes; each ends as soon as it sees that the node is gone."""
        for pid in self._all:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._all.clear()
