"""What a host lets submitters and readers ask: about the cluster, its runs and their tasks.

They never talk to the store themselves: any host asks it for them. What only one host knows, its
part of the events or the logs of tasks that ran there, is asked of that host.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web

from dataward.cluster.exchange import (
    ClusterFacts,
    MailSent,
    NewRun,
    OutcomesAsked,
    OutcomesKnown,
    RemovedTask,
    RunFactsNow,
    TaskAsked,
    TaskFacts,
    WrittenFile,
)
from dataward.cluster.host_watch import ALIVE_PATH, NODE_HEADER
from dataward.cluster.run_here import RunDirectoryHere
from dataward.errors import DatawardError
from dataward.live.credentials import Role
from dataward.live.node_server import RUN_NAME
from dataward.live.routes import Route
from dataward.model.answers import Standing, Tallied
from dataward.model.members import ClusterRun
from dataward.model.operations import Copy, Look, OutputFile, Tally
from dataward.model.states import RunState
from dataward.model.workflow import FileId, TaskId
from dataward.runs.run_directory import file_name_for
from dataward.world import StoreUnavailable

if TYPE_CHECKING:
    from dataward.cluster.host import Host

log = logging.getLogger(__name__)

T = TypeVar("T")
EVERYBODY = frozenset(Role)
SUBMITTERS = frozenset({Role.SUBMIT})
NODES = frozenset({Role.NODE})
WAIT_SECONDS_MAX = 30.0
LOG_BYTES_MAX = 4 << 20  # the end of a longer log
EVENTS_BYTES_MAX = 8 << 20  # in one answer
LOOKS_MAX = 10_000


class Gateway:
    def __init__(self, host: "Host") -> None:
        self._host = host

    def routes(self) -> list[Route]:
        run = f"/runs/{{run:{RUN_NAME}}}"
        return [
            Route("GET", "/cluster", self._facts, EVERYBODY),
            Route("GET", "/executors", self._executors, EVERYBODY),
            Route("GET", ALIVE_PATH, self._alive, NODES),
            Route("POST", "/runs", self._add_run, SUBMITTERS),
            Route("GET", run, self._run_facts, EVERYBODY),
            Route("GET", f"{run}/events", self._events, EVERYBODY),
            Route("GET", f"{run}/logs", self._logs, EVERYBODY),
            Route("GET", f"{run}/room", self._room, EVERYBODY),
            Route("POST", f"{run}/look", self._look, EVERYBODY),
            Route("POST", f"{run}/cancel", self._cancel, SUBMITTERS),
            Route("POST", f"{run}/remove", self._remove_tasks, SUBMITTERS),
            Route("POST", f"{run}/clean", self._clean, SUBMITTERS),
            Route("POST", f"{run}/clean-here", self._clean_here, SUBMITTERS | NODES),
            Route("POST", f"{run}/results", self._keep_results, NODES),
            Route("POST", "/outcomes", self._outcomes, SUBMITTERS),
            Route("POST", "/drain", self._drain, SUBMITTERS),
        ]

    # --- the cluster -----------------------------------------------------------------------------

    async def _facts(self, request: web.Request) -> web.Response:
        host = self._host
        runs = sorted(host.following.runs.values(), key=lambda run: (run.submitted_at, run.name))
        with _store_needed():
            primaries = await host.parts.connection.primaries()
        return answer(
            ClusterFacts(
                host.parts.cluster,
                host.parts.node,
                tuple(host.following.members),
                tuple(runs),
                self._now(),
                primaries,
                MailSent(host.parts.client.messages_sent, host.parts.client.letters_sent),
            )
        )

    async def _executors(self, request: web.Request) -> web.Response:
        return answer(self._host.lendings.facts())

    async def _alive(self, request: web.Request) -> web.StreamResponse:
        """Nothing, for as long as this host lives: whoever asks wants to see the connection end."""
        response = web.StreamResponse(headers={NODE_HEADER: self._host.node})
        await response.prepare(request)
        await self._host.stopped()
        return response

    def _now(self) -> float:
        return monotonic() + self._host.parts.clock_ahead_seconds

    async def _drain(self, request: web.Request) -> web.Response:
        self._host.drain()
        return web.Response(status=202)

    async def _outcomes(self, request: web.Request) -> web.Response:
        asked = await asked_of(request, OutcomesAsked)
        with _store_needed():
            return answer(OutcomesKnown(tuple(await self._host.registry.known(asked.keys))))

    # --- runs ------------------------------------------------------------------------------------

    async def _add_run(self, request: web.Request) -> web.Response:
        new = await asked_of(request, NewRun)
        run = ClusterRun(
            name=new.name,
            workflow=new.workflow,
            strategy=new.strategy,
            tasks=new.tasks,
            submitter=new.submitter,
            description=new.description,
            keepers=new.keepers,
            shards=new.shards,
            promise=new.promise,
            skipped=new.skipped,
        )
        with _store_needed():
            added = await self._host.registry.add_run(run)
        self._host.following.note_run(added)
        return answer(added)

    async def _run_facts(self, request: web.Request) -> web.Response:
        """How a run stands; with ``wait``, at the latest when it has ended, or after so long."""
        run = await self._run(request)
        until = monotonic() + min(_number(request, "wait"), WAIT_SECONDS_MAX)
        while run.state is RunState.RUNNING and (left := until - monotonic()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._host.following.changed.wait(), left)
            run = await self._run(request)
        counts: dict[str, int] = {}
        with _store_needed():
            if run.state is RunState.RUNNING:  # as far as this host has heard
                run = await self._host.registry.run(run.name) or run
            store = self._host.parts.store_of(run)
            for tally in await store.call([Tally(shard) for shard in range(run.shards)]):
                if isinstance(tally, Tallied):
                    for state, count in tally.counts.items():
                        if count:
                            counts[state.value] = counts.get(state.value, 0) + count
        return answer(RunFactsNow(run, counts, self._now()))

    async def _run(self, request: web.Request) -> ClusterRun:
        name = request.match_info["run"]
        run = self._host.following.runs.get(name)
        if run is None:
            with _store_needed():
                run = await self._host.registry.run(name)
        if run is None:
            raise web.HTTPNotFound(text=f"no run is called {name}")
        return run

    async def _look(self, request: web.Request) -> web.Response:
        run, asked = await self._run(request), await asked_of(request, TaskAsked)
        if len(asked.tasks) > LOOKS_MAX:
            raise web.HTTPRequestEntityTooLarge(LOOKS_MAX, len(asked.tasks))
        with _store_needed():
            looks = await self._host.parts.store_of(run).call([Look(t) for t in asked.tasks])
        facts = [_facts_of(look) for look in looks if isinstance(look, Standing)]
        return answer(tuple(facts))

    async def _cancel(self, request: web.Request) -> web.Response:
        """End a whole run: hosts stop what runs of it as soon as they hear of it."""
        run = await self._run(request)
        with _store_needed():
            return answer(await self._host.registry.end_run(run.name, RunState.CANCELLED))

    async def _remove_tasks(self, request: web.Request) -> web.Response:
        """Remove tasks with all that depend on them; only a keeper of the run can."""
        asked, keeper = (
            await asked_of(request, TaskAsked),
            self._host.following.keepers.get(request.match_info["run"]),
        )
        if keeper is None or not keeper.is_ready:
            raise web.HTTPConflict(text="this host does not keep that run")
        unknown = [task for task in asked.tasks if not keeper.knows(task)]
        if unknown:
            raise web.HTTPNotFound(text=f"the run has no task {unknown[0]!r}")
        removed = await keeper.remove(asked.tasks)
        return answer(tuple(RemovedTask(one.task, one.state) for one in removed))

    async def _clean(self, request: web.Request) -> web.Response:
        """Forget a run that is over: its tasks in the store, its files at every host."""
        host, name = self._host, request.match_info["run"]
        run = host.following.runs.get(name)
        if run is not None and run.state is RunState.RUNNING:
            raise web.HTTPConflict(text=f"{name} still runs; cancel it first")
        with _store_needed():
            if run is not None:
                await host.parts.store_of(run).erase()
            await host.registry.drop_run(name)
        await self._clean_here(request)
        return web.Response(status=204)

    async def _clean_here(self, request: web.Request) -> web.Response:
        name = request.match_info["run"]
        if name in self._host.following.here:
            raise web.HTTPConflict(text=f"{name} still runs here; try again in a moment")
        await asyncio.to_thread(self._host.files.remove_run, name)
        return web.Response(status=204)

    async def _keep_results(self, request: web.Request) -> web.Response:
        """Have files stay that are here: results of a run which did not make them here."""
        digests = await asked_of(request, list[str])
        name = request.match_info["run"]
        await asyncio.to_thread(self._host.files.keep_results, name, digests)
        return web.Response(status=204)

    # --- what this host alone has ----------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.Response:
        """Whole lines of this host's list of events, from a byte on."""
        path = self._directory(request).events
        first = int(_number(request, "from"))
        content = await asyncio.to_thread(_lines_of, path, first)
        return web.Response(body=content)

    async def _logs(self, request: web.Request) -> web.Response:
        """The ends of the logs of a task's attempts at this host, by name."""
        task = TaskId(request.query.get("task", ""))
        found = await asyncio.to_thread(_logs_of, self._directory(request).logs, task)
        return answer(found)

    async def _room(self, request: web.Request) -> web.Response:
        """A sentence about a task of the run that waits for room at this host, or nothing."""
        here = self._host.following.here.get(request.match_info["run"])
        return answer(here.waits_for_room if here is not None else "")

    def _directory(self, request: web.Request) -> RunDirectoryHere:
        return RunDirectoryHere(self._host.parts.depot, request.match_info["run"])


def _facts_of(look: Standing) -> TaskFacts:
    nodes: dict[FileId, list[Copy]] = {}
    for copy in look.copies:
        nodes.setdefault(copy.file, []).append(copy)
    files = tuple(
        WrittenFile(_as_file(file, copies), tuple(c.node for c in copies if c.node))
        for file, copies in nodes.items()
    )
    known = not look.unknown
    return TaskFacts(look.task, look.state, known, look.generation, look.preferred, files)


def _as_file(file: FileId, copies: Iterable[Copy]) -> OutputFile:
    known = next((copy for copy in copies if copy.digest), None)
    return OutputFile(file, known.size_bytes if known else -1, known.digest if known else "")


def _lines_of(path: Path, first: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(first)
            content = file.read(EVENTS_BYTES_MAX)
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def _logs_of(directory: Path, task: TaskId) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    stem = file_name_for(task) + "."
    for path in sorted(directory.glob("*")) if directory.is_dir() else ():
        attempt = path.name.removeprefix(stem)
        if path.name.startswith(stem) and attempt.count(".") >= 3:
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
                found[path.name] = file.read()
    return found


# --- asking and answering, for other routes too ---------------------------------------------------


def answer(value: Any) -> web.Response:
    return web.Response(body=msgspec.msgpack.encode(value), content_type="application/x-msgpack")


async def asked_of(request: web.Request, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(await request.read(), type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        log.warning("%s asked for %s with what it cannot be", request.remote, request.path)
        raise web.HTTPBadRequest(text=f"this cannot be read: {error}") from error


def _number(request: web.Request, name: str) -> float:
    try:
        number = float(request.query.get(name, "0"))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e18:
        raise web.HTTPBadRequest(text=f"{name} takes a number of 0 or more")
    return number


class _store_needed:  # noqa: N801 - used like a function
    """Says to who asks that the store does not answer, and what else goes wrong."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreUnavailable):
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        if isinstance(error, DatawardError):
            raise web.HTTPConflict(text=str(error)) from error
