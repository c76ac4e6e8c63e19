"""A host: one ``dataward node`` process, with a node for each run that goes on in the cluster."""

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

from dataward.cluster.access import Access
from dataward.cluster.gateway import Gateway
from dataward.cluster.host_watch import HostWatch
from dataward.cluster.keeper import Keeper, leader_of
from dataward.cluster.leftovers import leftovers
from dataward.cluster.lending import Lendings
from dataward.cluster.outcome_keys import KEEP_SECONDS
from dataward.cluster.run_here import INCARNATIONS, HostParts, RunDirectoryHere, RunHere
from dataward.errors import SettingError
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import Place, clear_incoming
from dataward.live.digest_index import DigestIndex, believed
from dataward.live.durability import replace_content
from dataward.live.kept_files import read_file
from dataward.live.leftovers import end_leftovers
from dataward.live.node_server import NodeServer
from dataward.live.peer_client import PeerClient
from dataward.live.runner_pool import RunnerPool
from dataward.live.sandbox import put_in_depot
from dataward.live.trees import remove_tree
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, Member
from dataward.model.messages import Message
from dataward.model.states import RunState
from dataward.stores.connection import Connection, connect
from dataward.stores.journal import DirectoryLock, make_directory
from dataward.stores.registry import Registry
from dataward.world import Queue, StoreUnavailable, TransferFailed

log = logging.getLogger(__name__)

NEWS_SECONDS = 30.0  # how long to wait for news before looking anyway
RETRY_SECONDS = 1.0
DISK_SHARE = 0.95  # of what the disk has, if nobody says how much the depot may hold
ROOM_SECONDS = 1.0
ROOM_SHARE = 0.8  # of the capacity: beyond that, what ended runs have left goes
RETRY_SECONDS_MAX = 30.0
START_SECONDS = 120.0  # for which a host that starts waits for its store
END_SECONDS = 0.5
OUTCOMES_SECONDS = 1.0  # outcomes are told to the store in batches


@dataclass(frozen=True, slots=True)
class HostSettings:
    """``address`` is what others are told; "": the host's own name, or loopback, and the port."""

    node: NodeId
    depot: Path
    slots: int
    capacity_bytes: float = inf
    listen: str = "127.0.0.1"
    port: int = 0
    address: str = ""
    lease_seconds: float = 10.0
    site: str = ""
    speed: float = 1.0
    bytes_per_second: float = 0.0  # of the link, each way, for plans; 0: not known


class Host:
    """Call ``run`` once, in an event loop; it returns when the host has been told to stop."""

    def __init__(self, access: Access, settings: HostSettings) -> None:
        if access.role != "node":
            raise SettingError(f"this access file is for {access.role!r}: a node needs node.access")
        if not access.store:
            raise SettingError(
                "the access file names no store; start one with 'dataward cluster store', "
                "or give --store valkey://..."
            )
        self._access = access
        self._settings = settings
        self.members: list[Member] = []
        self.present: list[NodeId] = []  # the members that take work
        self.runs: dict[str, ClusterRun] = {}
        self.here: dict[str, RunHere] = {}
        self.keepers: dict[str, Keeper] = {}
        self.is_draining = False
        self.changed = asyncio.Event()  # set and cleared whenever members or runs have changed
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._failed = asyncio.Event()  # a run has ended here by a fault
        self._server_run = ""  # the registry's server process, as last seen
        self._outcomes: dict[str, bytes] = {}
        self._room_bytes = inf
        self.index = DigestIndex()
        self.address = ""
        self.lendings = Lendings(self)

    @property
    def node(self) -> NodeId:
        return self._settings.node

    @property
    def slots(self) -> int:
        return self._settings.slots

    @property
    def depot(self) -> Path:
        return self._settings.depot

    def stop(self) -> None:
        """End at once; what runs here is run again elsewhere."""
        self._stop.set()

    async def stopped(self) -> None:
        """Wait until this host has been told to stop."""
        await self._stop.wait()

    def drain(self) -> None:
        """Begin nothing more, let what runs end, hand over what others need, and end."""
        if not self.is_draining:
            self.is_draining = True
            self._leaving = asyncio.create_task(self._leave(), name="leave")

    async def _leave(self) -> None:
        with suppress(StoreUnavailable):
            await self.registry.renew(self.as_member(), self._settings.lease_seconds)
        leaving = [here.leave() for here in self.here.values()]
        await asyncio.gather(*leaving, self.lendings.leave())
        self.stop()

    # --- life ------------------------------------------------------------------------------------

    async def run(self, on_ready: "asyncio.Event | None" = None) -> None:
        settings = self._settings
        make_directory(settings.depot)
        lock = DirectoryLock(settings.depot)
        try:
            await self._check_files()
            connection = connect(self._access.store)
            try:
                await self._run(Registry(connection, self._access.cluster), connection, on_ready)
            finally:
                await connection.close()
        finally:
            lock.release()

    async def _run(
        self, registry: Registry, connection: Connection, on_ready: "asyncio.Event | None"
    ) -> None:
        settings, credentials = self._settings, self._access.credentials
        self.registry = registry
        hash_threads = ThreadPoolExecutor(4, "dataward-hash")
        sync_thread = ThreadPoolExecutor(1, "dataward-sync")
        backlog = Backlog(on_error=lambda error: log.warning("%s", error))
        work = settings.depot / "work"
        end_leftovers(work)
        self.lendings.clear()
        pool = RunnerPool(work, settings.slots)
        client = PeerClient(self._address_of, credentials)
        server = NodeServer(
            self._mailbox,
            self.index.find,
            self._new_upload,
            self._take_upload,
            credentials,
            routes=[*Gateway(self).routes(), *self.lendings.routes()],
        )
        await client.open()
        self._watch = HostWatch(settings.node, credentials, self._on_gone)
        try:
            port = await server.start(settings.listen, settings.port)
            self.address = settings.address or f"{_own_name(settings.listen)}:{port}"
            incarnation, clock_ahead_seconds = await self._greet(registry)
            self.parts = HostParts(
                node=settings.node,
                cluster=self._access.cluster,
                depot=settings.depot,
                slots=settings.slots,
                memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
                incarnation=incarnation,
                lease_seconds=settings.lease_seconds,
                index=self.index,
                pool=pool,
                client=client,
                connection=connection,
                capacity_bytes=self._capacity_bytes,
                hash_threads=hash_threads,
                sync_thread=sync_thread,
                backlog=backlog,
                clock_ahead_seconds=clock_ahead_seconds,
                remember=self._outcomes.__setitem__,
                spoil=self._spoil,
                fetch_part=self.fetch_part,
            )
            loops = [
                asyncio.create_task(loop, name=name)
                for name, loop in (
                    ("renew", self._keep_renewing()),
                    ("news", self._follow_news()),
                    ("outcomes", self._tell_outcomes()),
                    ("room", self._keep_room()),
                    ("begin again", self._begin_failed_again()),
                )
            ]
            if on_ready is not None:
                on_ready.set()
            stop = asyncio.create_task(self._stop.wait())
            done, _ = await asyncio.wait([stop, *loops], return_when=asyncio.FIRST_COMPLETED)
            await _end_all([stop, *loops])
            for over in done - {stop}:
                over.result()  # raises what ended it
        finally:
            self.stop()  # so that whoever watches this host is let go
            await self._watch.close()
            await self.lendings.close()
            for here in list(self.here.values()):
                await here.stop()
            await _end_all(list(self._tending.values()))
            with suppress(StoreUnavailable):
                await registry.leave(settings.node)
            await server.close()
            await client.close()
            pool.close()
            await asyncio.to_thread(pool.wait)  # the loop must go on: it closes their sockets
            hash_threads.shutdown()
            sync_thread.shutdown()
            backlog.close()

    def as_member(self) -> Member:
        settings = self._settings
        return Member(
            node=settings.node,
            address=self.address,
            cores=settings.slots,
            memory_bytes=self.parts.memory_bytes,
            incarnation=self.parts.incarnation,
            speed=settings.speed,
            site=settings.site,
            bytes_per_second=settings.bytes_per_second,
            draining=self.is_draining,
        )

    async def _greet(self, registry: Registry) -> tuple[int, float]:
        """This host's incarnation, and how far the store's clock is ahead, once the store answers.

        A store may be starting, or failing over. Raises StoreUnavailable if it takes too long.
        """
        until = monotonic() + START_SECONDS
        while True:
            try:
                return await self._next_incarnation(registry), await registry.now() - monotonic()
            except StoreUnavailable as error:
                if monotonic() > until:
                    raise
                log.warning("%s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _next_incarnation(self, registry: Registry) -> int:
        """One more than ever before: by the depot, and by the registry if the depot is new."""
        path = self._settings.depot / "incarnation"
        before = int(path.read_text()) if path.exists() else 0
        incarnation = await registry.next_incarnation(self._settings.node, before)
        replace_content(path, f"{incarnation}\n".encode())
        return incarnation

    # --- members and runs ------------------------------------------------------------------------

    async def _keep_renewing(self) -> None:
        settings = self._settings
        while True:
            try:
                await self.registry.renew(self.as_member(), settings.lease_seconds)
            except StoreUnavailable as error:
                log.warning("%s", error)
            await asyncio.sleep(settings.lease_seconds / 3)

    async def _follow_news(self) -> None:
        position = ""
        while True:
            try:
                if not position:
                    position = await self.registry.news("", 0.0)
                await self._look()
                position = await self.registry.news(position, NEWS_SECONDS)
            except (StoreUnavailable, OSError) as error:  # of the disk: it may have room later
                log.warning("%s", error)
                position = ""
                await asyncio.sleep(RETRY_SECONDS)

    async def _look(self) -> None:
        """Read who is a member and which runs there are, and follow them."""
        self.members = await self.registry.members()
        present = {member.node: member for member in self.members if not member.draining}
        if not self.is_draining:
            present.setdefault(self._settings.node, self.as_member())
        self.present = sorted(present) or [self._settings.node]
        for member in self.members:
            if self.parts.gone.get(member.node, 0) > member.incarnation * INCARNATIONS:
                del self.parts.gone[member.node]  # it was silent, and is back
        self._watch.follow(self.members)
        for here in self.here.values():
            here.members.become(self.present)
        await self._tell_again()
        self.runs = {run.name: run for run in await self.registry.runs()}
        for name, run in self.runs.items():
            if run.state is RunState.RUNNING and name not in self.here and not self.is_draining:
                self._begin(run)
        for name, here in list(self.here.items()):
            known = self.runs.get(name)
            if known is None or known.state is not RunState.RUNNING:
                await self._end(here)
        self.changed.set()
        self.changed.clear()

    async def _tell_again(self) -> None:
        """Tell a registry that has lost everything, or a little, of the runs that go on here."""
        server_run = await self.registry.server_run()
        if self._server_run and self._server_run != server_run:
            # It may not have heard of the last runs, of which those hosts know that were told.
            for run in self.runs.values():
                if run.state is RunState.RUNNING:
                    await self.registry.add_run(run)
        self._server_run = server_run
        path = self._settings.depot / "registry"
        known = path.read_text() if path.exists() else ""
        birth = await self.registry.birth()
        if known and known != birth:
            log.warning("the store has forgotten the runs; they are told again")
            for directory in sorted((self._settings.depot / "runs").glob("*")):
                recorded = RunDirectoryHere(self._settings.depot, directory.name).recorded()
                if recorded is not None and recorded.state is RunState.RUNNING:
                    await self.registry.add_run(recorded)
        if known != birth:
            replace_content(path, birth.encode())

    def _begin(self, run: ClusterRun) -> None:
        here = RunHere(self.parts, run, self.present, self._failed.set)
        here.start()
        self.here[run.name] = here
        if self._settings.node in run.keepers:
            keeper = self.keepers[run.name] = Keeper(self.parts, self.registry, here)
            tending = asyncio.create_task(keeper.tend(self.members), name=f"keep {run.name}")
            self._tending[run.name] = tending

    async def _end(self, here: RunHere) -> None:
        name = here.run.name
        self.here.pop(name, None)
        self.keepers.pop(name, None)
        tending = self._tending.pop(name, None)
        await here.stop()
        if tending is not None:
            await _end_all([tending])
        run = self.runs.get(name)
        if run is not None:
            here.directory.make(run)
        with suppress(StoreUnavailable):  # they are told again
            await self._tell_outcomes_now()

    async def _begin_failed_again(self) -> None:
        """A fault that ended a run here, as a full disk, may have gone: begin the run again."""
        pause = RETRY_SECONDS
        while True:
            try:
                await asyncio.wait_for(self._failed.wait(), RETRY_SECONDS_MAX * 2)
            except TimeoutError:
                pause = RETRY_SECONDS  # it has been well for a while
                continue
            self._failed.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
            for name, here in list(self.here.items()):
                if here.failure is None:
                    continue
                try:
                    await self._end(here)
                    run = self.runs.get(name)
                    is_wanted = run is not None and run.state is RunState.RUNNING
                    if is_wanted and name not in self.here and not self.is_draining:
                        self._begin(self.runs[name])
                except OSError as error:
                    log.warning("%s", error)
                    self.here.setdefault(name, here)
                    self._failed.set()

    def note_run(self, run: ClusterRun) -> None:
        """Know of a run that somebody has submitted here, should the registry forget it."""
        self.runs.setdefault(run.name, run)

    async def _on_gone(self, member: Member) -> None:
        """Have others take over at once from a host whose process has ended.

        Should it live after all, it finds itself fenced, as if its lease had expired.
        """
        log.warning("%s has gone: nobody listens at %s", member.node, member.address)
        before = self.parts.gone[member.node] = (member.incarnation + 1) * INCARNATIONS
        for here in self.here.values():
            if here.node is not None:
                here.node.give_up(member.node, before)
        with suppress(StoreUnavailable):  # last: the news of it may end this very watch
            await self.registry.drop(member)

    def leads(self, run: ClusterRun) -> bool:
        return leader_of(run, self.present) == self._settings.node

    # --- files -----------------------------------------------------------------------------------

    @property
    def _uploads(self) -> Path:
        return self._settings.depot / "uploads"

    async def _check_files(self) -> None:
        """Read every file in the depot again: only what is as its name says counts."""
        depot = self._settings.depot
        (self._uploads / "incoming").mkdir(parents=True, exist_ok=True)
        clear_incoming(self._uploads)
        directories = [self._uploads, *(path / "files" for path in (depot / "runs").glob("*"))]
        for place in await asyncio.to_thread(believed, directories):
            self.index.add(place)
        free = shutil.disk_usage(depot).free
        on_disk = DISK_SHARE * (free + self.index.used_bytes)
        self._room_bytes = min(self._settings.capacity_bytes, on_disk)

    def _new_upload(self) -> str:
        return f"{self._uploads}/incoming/{token_hex(8)}"

    def _take_upload(self, path: str, size_bytes: int, digest: str) -> None:
        own = put_in_depot(path, str(self._uploads), digest, os.path.basename(path))
        self.index.add(Place(own, size_bytes, digest, False, os.stat(own).st_mtime_ns))

    def _capacity_bytes(self) -> float:
        return self._room_bytes

    async def _keep_room(self) -> None:
        """Let what ended runs have left make room for those that go on."""
        while True:
            await asyncio.sleep(ROOM_SECONDS)
            excess = self.index.used_bytes - ROOM_SHARE * self._room_bytes
            if excess > 0:
                await asyncio.to_thread(self._make_room, excess)

    def _make_room(self, excess_bytes: float) -> None:
        for place in leftovers(self._settings.depot, self.index, set(self.here)):
            if excess_bytes <= 0:
                return
            self.index.discard(place)
            with suppress(FileNotFoundError):
                os.unlink(place.path)
            excess_bytes -= place.size_bytes

    async def fetch_part(self, digest: str, holders: Sequence[NodeId]) -> bytes:
        """A part of a run's description, from here or from one of these hosts."""
        pause = 0.1
        while True:
            place = self.index.find(digest)
            if place is not None:
                return Path(place.path).read_bytes()
            for node in holders:
                if node == self._settings.node:
                    continue
                try:
                    content = await read_file(self.parts.client, node, digest)
                except TransferFailed as error:
                    log.info("%s", error)
                    continue
                self._keep_part(content, digest)
                return content
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _keep_part(self, content: bytes, digest: str) -> None:
        path = Path(self._new_upload())
        replace_content(path, content)
        os.chmod(path, 0o444)
        self._take_upload(str(path), len(content), digest)

    def _spoil(self, digest: str) -> None:
        for here in self.here.values():
            if here.disk is not None:
                here.disk.spoil_content(digest)

    def remove_run(self, name: str) -> None:
        """Remove all files of a run that is over."""
        directory = RunDirectoryHere(self._settings.depot, name)
        if directory.path.is_dir():
            for place in self.index.places_below(str(directory.files)):
                self.index.discard(place)
            remove_tree(directory.path)

    # --- what others ask -------------------------------------------------------------------------

    def _mailbox(self, run: str) -> Queue[Message] | None:
        here = self.here.get(run)
        return here.inbox if here is not None else None

    def _address_of(self, node: NodeId) -> str | None:
        return next((m.address for m in self.members if m.node == node), None)

    async def _tell_outcomes(self) -> None:
        while True:
            await asyncio.sleep(OUTCOMES_SECONDS)
            with suppress(StoreUnavailable):
                await self._tell_outcomes_now()

    async def _tell_outcomes_now(self) -> None:
        if self._outcomes:
            told = dict(self._outcomes)
            await self.registry.remember(told, KEEP_SECONDS)
            for key in told:
                self._outcomes.pop(key, None)


async def _end_all(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Cancel tasks, and wait for them. The store's client may swallow a cancellation: once more."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=END_SECONDS)


def _own_name(listen: str) -> str:
    """How others reach this machine, if they are not told."""
    if listen in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{listen}]" if ":" in listen else listen
