"""A host's side of executors elsewhere: slots are lent over a websocket, for as long as it is open.

An executor is a run of its own in the host's pool, so slots are shared fairly with the workflows
that run here; the store knows nothing of it. When the connection ends, in whatever way, so do the
executor's calls here, and its values are removed.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import WSMsgType, web

from dataward.cluster.call_wire import (
    CALLS_PATH,
    HEARTBEAT_SECONDS,
    MESSAGE_BYTES_MAX,
    BorrowSlot,
    BringValues,
    CallMade,
    CallsMade,
    DropValues,
    EndLoan,
    HostLeaves,
    LoanOver,
    MakeBundle,
    Need,
    NeedsMissing,
    Outgoing,
    ToCaller,
    ToHost,
    ValueName,
    ValuesBrought,
    decode_to_host,
)
from dataward.cluster.exchange import ExecutorFacts
from dataward.cluster.loan import Loan
from dataward.cluster.run_here import HostParts
from dataward.live.arriving import Arriving
from dataward.live.credentials import Role
from dataward.live.depot_disk import Place
from dataward.live.file_digest import file_digest
from dataward.live.making_calls import described, pickled_error
from dataward.live.orders import Limits
from dataward.live.peer_client import BROKEN
from dataward.live.routes import Route
from dataward.live.runner_settings import RunnerSettings
from dataward.live.trees import remove_tree
from dataward.world import TransferFailed

if TYPE_CHECKING:
    from dataward.cluster.host import Host

log = logging.getLogger(__name__)

T = TypeVar("T")
NAME_MAX = 100  # letters
LEAVE_SECONDS = 60.0  # for which a host that is drained waits until its values are elsewhere
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Lendings:
    """All executors that a host lends slots to."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._open: set[Lending] = set()

    def routes(self) -> list[Route]:
        submitters = frozenset({Role.SUBMIT})
        return [Route("GET", CALLS_PATH, self._lend, submitters, streams=True)]

    @property
    def _directory(self) -> Path:
        return self._host.depot / "calls"

    def clear(self) -> None:
        """Remove what was left by an earlier process of this host."""
        if self._directory.is_dir():
            remove_tree(self._directory)

    async def _lend(self, request: web.Request) -> web.StreamResponse:
        if self._host.is_draining:
            raise web.HTTPServiceUnavailable(text=f"{self._host.node} is leaving")
        python = request.query.get("python", "")
        if python != PYTHON:  # functions are sent as the bytecode of one version
            raise web.HTTPConflict(
                text=f"{self._host.node} has Python {PYTHON}, the caller {python[:10]!r}; "
                "both must have the same version"
            )
        socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, max_msg_size=MESSAGE_BYTES_MAX, compress=False
        )
        await socket.prepare(request)
        run = f"calls-{token_hex(8)}"
        lending = Lending(self._host.parts, run, self._directory / run, socket)
        lending.name = request.query.get("name", run)[:NAME_MAX]
        lending.caller = request.query.get("caller", "")[:NAME_MAX]
        self._open.add(lending)
        try:
            await lending.serve()
        finally:
            self._open.discard(lending)
        return socket

    def facts(self) -> list[ExecutorFacts]:
        """The executors that are here now, by name."""
        return sorted((one.facts() for one in self._open), key=lambda facts: facts.name)

    async def leave(self) -> None:
        """Lend no more; wait until the calls that are being made have ended."""
        await asyncio.gather(*(lending.leave() for lending in self._open))

    async def close(self) -> None:
        await asyncio.gather(*(lending.close() for lending in list(self._open)))


class Lending:
    """One executor, at one host. ``serve`` it until its connection ends."""

    def __init__(
        self, parts: HostParts, run: str, directory: Path, socket: web.WebSocketResponse
    ) -> None:
        self.pool = parts.pool
        self.run = run
        self.name, self.caller = run, ""
        self._began, self._calls = monotonic(), 0
        self._parts = parts
        self._directory = directory
        self._socket = socket
        self._outgoing = Outgoing(socket.send_bytes)
        self._loans: dict[int, Loan] = {}
        self._values: dict[ValueName, Place] = {}
        self._bringing: dict[ValueName, asyncio.Task[None]] = {}
        self._unwanted: set[ValueName] = set()  # of those that are being brought in
        self._tasks: set[asyncio.Task[Any]] = set()
        self._one_ended = asyncio.Event()
        self._is_leaving = False
        self._is_closed = asyncio.Event()

    async def serve(self) -> None:
        self._directory.mkdir(parents=True)
        log.info("%s: an executor borrows slots", self.run)
        self._spawn(self._send())
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    break
                for each in decode_to_host(message.data):
                    self._on_message(each)
        except (msgspec.MsgspecError, ValueError, OSError) as error:
            log.warning("%s sent what cannot be done: %s", self.run, error)
        finally:
            self._is_closed.set()
            await self._end()

    async def _send(self) -> None:
        with suppress(ConnectionError):
            await self._outgoing.run()

    async def leave(self) -> None:
        self._is_leaving = True
        self.put(HostLeaves())
        for loan in self._loans.values():
            loan.end()
        while self._loans:
            self._one_ended.clear()
            await self._one_ended.wait()
        with suppress(TimeoutError):  # the caller has values brought elsewhere
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._is_closed.wait()

    async def close(self) -> None:
        await self._socket.close()

    async def _end(self) -> None:
        """End the executor's calls, and remove its values."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._parts.pool.forget(self.run)
        for place in self._values.values():
            self._parts.index.discard(place)
        with suppress(OSError):
            await asyncio.to_thread(remove_tree, self._directory)
        log.info("%s: the executor has gone", self.run)

    def _track(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """A task that ends with the connection, at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Do some work; if that fails, the connection ends."""
        self._track(work).add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("%s: %s", self.run, task.exception(), exc_info=task.exception())
            self._track(self._socket.close())

    # --- messages --------------------------------------------------------------------------------

    def put(self, message: ToCaller) -> None:
        if isinstance(message, CallsMade):
            self._calls += len(message.calls)
        self._outgoing.put(message)

    def facts(self) -> ExecutorFacts:
        value_bytes = sum(place.size_bytes for place in self._values.values())
        return ExecutorFacts(
            self.name,
            self.caller,
            self._parts.node,
            len(self._loans),
            self._calls,
            len(self._values),
            value_bytes,
            monotonic() - self._began,
        )

    def _on_message(self, message: ToHost) -> None:
        match message:
            case BorrowSlot():
                self._lend(message)
            case MakeBundle():
                self._make(message)
            case DropValues():
                self._drop(message.names)
            case BringValues(needs):
                self._spawn(self._bring_all(needs))
            case EndLoan(slot) if slot in self._loans:
                self._loans[slot].end()

    def _lend(self, asked: BorrowSlot) -> None:
        if self._is_leaving:
            self.put(LoanOver(asked.slot))
            return
        loan = Loan(asked.slot, str(self._directory / str(asked.slot)), self)
        self._loans[asked.slot] = loan
        limits = RunnerSettings(time_limit_seconds=asked.limit_seconds).limits(0)
        self._spawn(self._run(asked.slot, loan, limits))

    async def _run(self, slot: int, loan: Loan, limits: Limits) -> None:
        try:
            await loan.run(limits)
        finally:
            del self._loans[slot]
            self._one_ended.set()

    def _make(self, bundle: MakeBundle) -> None:
        if all(need.name in self._values for need in bundle.needs):
            self._give(bundle)
        else:
            self._spawn(self._make_later(bundle))

    def _give(self, bundle: MakeBundle) -> None:
        loan = self._loans.get(bundle.slot)
        if loan is not None:  # otherwise the caller hears that the loan is over
            loan.make(bundle)

    async def _make_later(self, bundle: MakeBundle) -> None:
        """Make calls when all that they need has been brought in."""
        bringing = [self._bring(need) for need in bundle.needs]
        problems = await asyncio.gather(*bringing, return_exceptions=True)
        for problem in problems:
            if isinstance(problem, (TransferFailed, OSError)):
                self.put(NeedsMissing(bundle.slot, bundle.bundle, str(problem)))
                return
            if isinstance(problem, BaseException):
                raise problem
        self._give(bundle)

    # --- values ----------------------------------------------------------------------------------

    def keep(self, name: ValueName, path: str) -> "asyncio.Task[CallMade]":
        return self._track(self._keep(name, path))

    async def _keep(self, name: ValueName, path: str) -> CallMade:
        loop = asyncio.get_running_loop()
        try:
            place = await loop.run_in_executor(self._parts.hash_threads, _place_of, path)
        except OSError as error:
            trace = f"{described(error)}\n"
            return CallMade(name.bundle, name.place, 0.0, pickled_error(error), trace)
        self._hold(name, place)
        return CallMade(name.bundle, name.place, 0.0, b"", "", place.digest, place.size_bytes)

    def _hold(self, name: ValueName, place: Place) -> None:
        self._values[name] = place
        self._parts.index.add(place)

    def _drop(self, names: Sequence[ValueName]) -> None:
        for name in names:
            place = self._values.pop(name, None)
            if place is not None:
                self._parts.index.discard(place)
                with suppress(FileNotFoundError):
                    os.unlink(place.path)
            elif name in self._bringing:
                self._unwanted.add(name)

    async def _bring(self, need: Need) -> None:
        """Have a value here. Raises TransferFailed, or OSError if it cannot be written."""
        if need.name in self._values:
            return
        bringing = self._bringing.get(need.name)
        if bringing is None:
            bringing = self._bringing[need.name] = self._track(self._fetch(need))
            bringing.add_done_callback(lambda _: self._bringing.pop(need.name))
        await asyncio.shield(bringing)

    async def _bring_all(self, needs: Sequence[Need]) -> None:
        missed = []
        for need in needs:
            try:
                await self._bring(need)
            except (TransferFailed, OSError) as error:
                log.warning("%s: a value cannot be brought here: %s", self.run, error)
                missed.append(need.name)
        self.put(ValuesBrought(tuple(need.name for need in needs), tuple(missed)))

    async def _fetch(self, need: Need) -> None:
        path = str(self._directory / need.name.file_name)
        found = self._parts.index.find(need.digest)
        if found is not None:  # equal content of somebody else here
            os.link(found.path, path)
            place = Place(path, found.size_bytes, found.digest, False, found.modified_ns)
        else:
            place = await self._download(need, path)
        self._hold(need.name, place)
        if need.name in self._unwanted:
            self._unwanted.discard(need.name)
            self._drop([need.name])

    async def _download(self, need: Need, path: str) -> Place:
        problem = f"no node has the value {need.name.file_name}"
        beside = f"{path}.incoming"
        for holder in need.holders:
            try:
                with open(beside, "wb", buffering=0) as file:
                    arriving = Arriving(need.digest, file)
                    await self._parts.client.fetch_file(holder, arriving)
                place = arriving.place(beside)
            except (*BROKEN, TransferFailed) as error:
                problem = f"{holder}: {error}"
                continue
            os.rename(beside, path)
            return Place(path, place.size_bytes, place.digest, False, place.modified_ns)
        raise TransferFailed(problem)


def _place_of(path: str) -> Place:
    """A file that a process of this host has just written, with its digest."""
    os.chmod(path, 0o444)
    status = os.stat(path)
    with open(path, "rb", buffering=0) as file:
        digest = file_digest(file, status.st_size)
    return Place(path, status.st_size, digest, False, status.st_mtime_ns)
