"""A node's runner processes, and which of them gets which order.

A process has one order to carry out and perhaps others in line behind it, so that it need not wait
for the node between short commands. No order is stuck in a line: when a process has nothing to do,
an order is recalled from another process's line and given to it.

Where several runs share the pool, no order waits in a line: each process that comes free goes to
the run that has the fewest cores, and among those to the one that has used the least time. Nor does
one where slots have promised tasks by a deadline: then `PromisedSlots` says what starts.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path

from dataward.errors import SettingError
from dataward.live.orders import Order, Report
from dataward.live.promised_slots import PromisedSlots
from dataward.live.runner_connection import PendingOrder, ProcessEnd, RunnerConnection
from dataward.live.slice import Slice
from dataward.live.waiting_orders import WaitingOrders
from dataward.model.ids import NodeId

# A process that runs commands needs a handful of modules. The package's own ``__init__`` would load
# numpy and much else, a tenth of a second for each process: an empty package takes its place.
_BOOT = """\
import sys, types
package = sys.modules["dataward"] = types.ModuleType("dataward")
package.__path__ = [sys.argv[3]]
from dataward.live.runner_process import main
main()
"""
# Idle processes that have made calls are kept for their runs, up to so many in all for each slot.
PROCESSES_PER_SLOT_MAX = 4
LOOK_AGAIN_SECONDS_MIN = 0.01
HELD_SECONDS = 0.02  # for which a process waits for the next order of a run whose turn it is
ORDERS_IN_LINE = 4  # that take a few milliseconds, even if they are the shortest commands
_PACKAGE = str(Path(__file__).parents[1])


class ProcessDied(Exception):  # noqa: N818 - answered by running the task elsewhere
    """A runner process ended before its task did; the text says how."""

    def __init__(self, end: ProcessEnd) -> None:
        self.end = end
        super().__init__(end.how)


@dataclass(frozen=True, slots=True)
class _Launched:
    """A process that is starting or waits for its first order, and the node's socket to it."""

    pid: int
    socket: socket.socket
    directory: Path


def runner_pools(machine: Slice, work: Path) -> dict[NodeId, "RunnerPool"]:
    """Every node's pool of runner processes. These take a moment to start: launch them early."""
    return {id: RunnerPool(work / id, machine.slots) for id in machine.node_ids}


def close_pools(pools: Iterable["RunnerPool"]) -> None:
    """End every process of these pools, and wait until they have ended."""
    for pool in pools:
        pool.close()
        pool.wait()


class RunnerPool:
    """As many processes as there are slots, started when first needed."""

    def __init__(self, directory: Path, slots: int, promises: PromisedSlots | None = None) -> None:
        self._directory = directory
        self._slots = slots
        self._promises = promises
        self._look_again: asyncio.TimerHandle | None = None
        self._idle: dict[int, RunnerConnection] = {}
        self._busy: dict[int, RunnerConnection] = {}
        self._starting = 0
        self._waiting = WaitingOrders()  # for a process to be free
        self._numbers = count(1)
        self._directories = count(1)
        self._restart: asyncio.Task[None] | None = None
        self._is_closed = False
        self._launched: list[_Launched] = []
        self._watchers: dict[Callable[[], None], None] = {}

    def launch(self, tasks: int) -> None:
        """Start processes for this many tasks: needs no event loop, so it can be done early."""
        while len(self._launched) < min(tasks, self._slots):
            self._launched.append(self._launch())

    async def connect(self) -> None:
        """Connect to the processes that were launched."""
        while self._launched:
            await self._connect(self._launched.pop())

    def get_ready(self, tasks: int) -> None:
        """Start processes for so many tasks, which are about to come: processes take a moment."""
        if self._restart is None or self._restart.done():
            self._restart = asyncio.ensure_future(self._start_up_to(min(tasks, self._slots)))

    async def carry_out(
        self,
        order: Order,
        on_start: Callable[[float], None] = lambda at: None,
        run: str = "",
        seconds: float = 0.0,
    ) -> Report:
        """The report of a task run in one of the processes. Cancelling the call ends the task.

        ``run`` names whose order it is, where several share the pool, and ``seconds`` how long it
        should take, 0 if nobody knows. Raises ProcessDied if the process ends before the task does.
        """
        if not self._idle and self._may_start:
            await self._start()
        report: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        pending = PendingOrder(next(self._numbers), order, on_start, report, run, seconds=seconds)
        self._waiting.add(pending)
        self._give_out()
        try:
            over = await pending.over()
        except asyncio.CancelledError:
            self._call_off(pending)
            raise
        self._waiting.used(run, order.cores * over.wall_seconds)
        return over

    def forget(self, run: str) -> None:
        """This run gives no more orders."""
        self._waiting.forget(run)
        for process in [p for p in self._idle.values() if run and p.calls_of == run]:
            self._end_idle(process)

    def watch(self, on_waiting: Callable[[], None]) -> None:
        """Have this called whenever an order has to wait, so that a long one may make room."""
        self._watchers[on_waiting] = None

    def unwatch(self, on_waiting: Callable[[], None]) -> None:
        del self._watchers[on_waiting]

    def lead_seconds(self, run: str) -> float | None:
        """How much more time this run has used than one that waits and has fewer cores.

        None if none such waits. Orders count when they are over.
        """
        cores, waiting = self._cores_of_runs(), self._waiting
        behind = [other for other in waiting.runs() if cores.get(other, 0) < cores.get(run, 0)]
        if not behind:
            return None
        return waiting.used_by(run) - min(map(waiting.used_by, behind))

    def _call_off(self, pending: PendingOrder) -> None:
        if pending in self._waiting:
            self._waiting.remove(pending)
            return
        for process in self._busy.values():
            if pending.number in process.line:
                process.call_off(pending)

    # --- who gets what ---------------------------------------------------------------------------

    def running(self) -> list[PendingOrder]:
        """The orders that are being carried out."""
        return [p.current for p in self._busy.values() if p.current is not None]

    def has_lines(self) -> bool:
        """Whether every process has several orders in line, and so need not wait for the next."""
        if self._idle or not self._busy:
            return False
        return all(len(process.line) > ORDERS_IN_LINE for process in self._busy.values())

    def taken_seconds(self, run: str) -> list[float]:
        """How long the orders of other runs have run, one number for each core that they have."""
        others = [pending for pending in self.running() if pending.run != run]
        return [p.passed_seconds() for p in others for _ in range(p.order.cores)]

    def on_promises(self) -> None:
        """What slots have promised has changed: orders in lines must wait for their turn anew."""
        if self._promises:
            for process in self._busy.values():
                for pending in process.waiting():
                    if not pending.is_recalled:
                        process.recall(pending)
        self._give_out()

    def _give_out_promised(self, promises: PromisedSlots) -> None:
        """Start what may start where slots have promises; look again when that may change."""
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
        while self._waiting and self._idle:
            free = promises.note_running(self.running())
            start = promises.next_start(self._waiting.lines(self._cores_of_runs()), free)
            process = self._idle_one_for(start.pending) if start is not None else None
            if start is None or process is None:
                break
            promises.started(start)
            self._waiting.remove(start.pending)
            process.give(start.pending)
        if self._waiting:
            for on_waiting in list(self._watchers):
                on_waiting()
            pause = max(promises.look_again_seconds(), LOOK_AGAIN_SECONDS_MIN)
            if self._idle and pause < inf:
                self._give_out_at(asyncio.get_running_loop().time() + pause)

    def _give_out(self) -> None:
        if self._promises:
            self._give_out_promised(self._promises)
            return
        while self._waiting:
            if self._is_held():
                return
            several = self._waiting.are_of_several_runs
            pending = self._waiting.next_one(self._cores_of_runs() if several else {})
            process = self._next_for(pending)
            if process is None:
                for on_waiting in list(self._watchers):
                    on_waiting()
                return
            self._waiting.remove(pending)
            process.give(pending)
        if self._idle:
            self._take_from_lines()

    def _is_held(self) -> bool:
        """Whether the only idle process waits for the next order of a run whose turn it is."""
        if not self._waiting.is_shared or len(self._idle) != 1 or self._is_closed:
            return False
        loop = asyncio.get_running_loop()
        until = self._waiting.held_until(self._cores_of_runs(), loop.time())
        if until is not None:
            self._give_out_at(until)
        return until is not None

    def _give_out_at(self, time: float) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
        self._look_again = asyncio.get_running_loop().call_at(time, self._give_out)

    def _next_for(self, pending: PendingOrder) -> RunnerConnection | None:
        """The process to give an order to, or None if the order must wait.

        An idle process first, the last used one, whose caches are warm; else one that runs a
        command of the same run, to wait in its line. Calls wait in no line, and no order waits
        behind calls: they may take long, and orders behind them could not be recalled.
        """
        order = pending.order
        if self._idle and (not self._busy or self._used_cores() + order.cores <= self._slots):
            return self._idle_one_for(pending)
        if order.is_calls or self._waiting.are_of_several_runs or self._is_lent_beyond(pending.run):
            return None
        for pid, process in self._busy.items():
            current = process.current
            if current is None or current.order.is_calls:
                continue
            if current.run == pending.run:
                del self._busy[pid]  # in turns
                self._busy[pid] = process
                return process
        return None

    def _idle_one_for(self, pending: PendingOrder) -> RunnerConnection | None:
        """An idle process; calls get none that has made calls of another run.

        Modules and globals of that run would still be there. So another process is started, and
        the idle one stays for its run, as what it has imported may have taken seconds.
        """
        usable = [
            process
            for process in self._idle.values()
            if not pending.order.is_calls or process.calls_of in (None, pending.run)
        ]
        if not usable:
            if self._restart is None or self._restart.done():
                if len(self._idle) + len(self._busy) >= self._slots * PROCESSES_PER_SLOT_MAX:
                    self._end_idle(next(iter(self._idle.values())))
                self._restart = asyncio.ensure_future(self._start_one_more())
            return None
        process = usable[-1]
        self._busy[process.pid] = self._idle.pop(process.pid)
        return process

    def _end_idle(self, process: RunnerConnection) -> None:
        del self._idle[process.pid]
        process.kill()  # and is waited for when it has ended

    def _is_lent_beyond(self, run: str) -> bool:
        """Whether another run has been lent processes for calls, and has more cores than this."""
        lent = {
            p.current.run for p in self._busy.values() if p.current and p.current.order.is_calls
        } - {run}
        if not lent:
            return False
        cores = self._cores_of_runs()
        return any(cores[other] > cores.get(run, 0) for other in lent)

    def _cores_of_runs(self) -> dict[str, int]:
        cores: dict[str, int] = {}
        for process in self._busy.values():
            if process.current is not None:
                run = process.current.run
                cores[run] = cores.get(run, 0) + process.current.order.cores
        return cores

    def _used_cores(self) -> int:
        return sum(p.current.order.cores for p in self._busy.values() if p.current is not None)

    def _take_from_lines(self) -> None:
        """Recall orders from the ends of lines, for the processes that have nothing to do."""
        lined_up = [p for p in self._busy.values() if len(p.line) > 1]
        asked = sum(pending.is_recalled for p in lined_up for pending in p.waiting())
        room = self._slots - self._used_cores()
        for process in sorted(lined_up, key=lambda process: -len(process.line)):
            last = next(reversed(process.line.values()))
            if asked < min(len(self._idle), room) and not last.is_recalled:
                asked += 1
                process.recall(last)

    # --- what processes tell ---------------------------------------------------------------------

    def on_reports(self, process: RunnerConnection) -> None:
        if not process.line and process.pid in self._busy:
            self._idle[process.pid] = self._busy.pop(process.pid)
            self._expect_more(process.ended)
        if self._waiting.is_shared and not self._promises:
            # Whoever waits for the report hears of it first, and may have one order more.
            asyncio.get_running_loop().call_soon(self._give_out)
        else:
            self._give_out()

    def _expect_more(self, ended: PendingOrder | None) -> None:
        if ended is not None and not ended.order.is_calls:
            now = asyncio.get_running_loop().time()
            self._waiting.expect(ended.run, now + HELD_SECONDS)

    def on_returned(self, pending: PendingOrder) -> None:
        pending.recall(False)
        if not pending.report.done():
            self._waiting.put_back(pending)

    def on_gone(self, process: RunnerConnection, end: ProcessEnd) -> None:
        self._idle.pop(process.pid, None)
        self._busy.pop(process.pid, None)
        orders = list(process.line.values())
        if orders and not orders[0].report.done():
            orders[0].report.set_exception(ProcessDied(end))
        for pending in reversed(orders[1:]):  # they had not begun
            self.on_returned(pending)
        if self._waiting and not self._is_closed:
            self._restart = asyncio.ensure_future(self._start_another())

    # --- processes -------------------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        return len(self._idle) + len(self._busy) + self._starting < self._slots

    async def _start_up_to(self, processes: int) -> None:
        while len(self._idle) + len(self._busy) + self._starting < processes:
            if self._is_closed:
                return
            await self._start()
        self._give_out()

    async def _start_another(self) -> None:
        if self._may_start:
            await self._start()
        self._give_out()

    async def _start_one_more(self) -> None:
        await self._start()
        self._give_out()

    async def _start(self) -> None:
        await self._connect(self._launch())

    def _launch(self) -> "_Launched":
        try:
            return self._spawn()
        except OSError as error:
            raise SettingError(
                f"no more processes can be started to run tasks ({error.strerror}); use fewer slots"
            ) from error

    def _spawn(self) -> "_Launched":
        ours, theirs = socket.socketpair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._directory.mkdir(parents=True, exist_ok=True)
            directory = self._directory / str(next(self._directories))
            command = [sys.executable, "-c", _BOOT, str(theirs.fileno()), str(directory), _PACKAGE]
            # In a group of its own: Ctrl-C at the terminal must reach only the node.
            pid = os.posix_spawn(sys.executable, command, os.environ, setpgroup=0)
        return _Launched(pid, ours, directory)

    async def _connect(self, launched: "_Launched") -> None:
        process = RunnerConnection(self, launched.pid, launched.directory)
        self._starting += 1
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: process, sock=launched.socket)
        finally:
            self._starting -= 1
        process.watch()
        self._idle[process.pid] = process
        if self._is_closed:
            process.close()

    def close(self) -> None:
        """Tell every process to end, with what it runs; `wait` waits until they have."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._look_again is not None:
            self._look_again.cancel()
        for process in (*self._idle.values(), *self._busy.values()):
            process.close()
        for launched in self._launched:
            launched.socket.close()

    def wait(self) -> None:
        """Wait for the processes; each ends as soon as it sees that its socket is closed."""
        for pid in (*self._idle, *self._busy, *(one.pid for one in self._launched)):
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._idle.clear()
        self._busy.clear()
        self._launched.clear()
