"""A host: one ``dataward node`` process, with a node for each run that goes on in the cluster."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic

from dataward.cluster.access import Access
from dataward.cluster.ending_tasks import end_all
from dataward.cluster.following import Following
from dataward.cluster.gateway import Gateway
from dataward.cluster.host_files import HostFiles
from dataward.cluster.host_watch import HostWatch
from dataward.cluster.lending import Lendings
from dataward.cluster.promise_asking import PromiseAsking
from dataward.cluster.promise_routes import PromiseRoutes
from dataward.cluster.run_here import HostParts
from dataward.cluster.told_outcomes import ToldOutcomes
from dataward.cluster.tree_addresses import address_of
from dataward.cluster.tree_here import TreeHere
from dataward.errors import SettingError
from dataward.live.backlog import Backlog
from dataward.live.durability import replace_content
from dataward.live.leftovers import end_leftovers
from dataward.live.node_server import NodeServer
from dataward.live.peer_client import PeerClient
from dataward.live.promised_slots import PromisedSlots
from dataward.live.runner_pool import RunnerPool
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.stores.connection import Connection, connect
from dataward.stores.journal import DirectoryLock, make_directory
from dataward.stores.registry import Registry
from dataward.world import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
START_SECONDS = 120.0  # for which a host that starts waits for its store
CLOCK_TRIES = 20  # questions for the store's time, until an answer is quick
QUICK_SECONDS = 0.02
BYTES_PER_SECOND = 125e6  # of a link of which nothing is known: 1 Gbps


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
        self.following = Following(settings.node)
        self.files = HostFiles(settings.node, settings.depot, settings.capacity_bytes)
        self.is_draining = False
        self.address = ""
        self._outcomes = ToldOutcomes()
        self._clock_ahead_seconds = 0.0
        self._has_joined = False
        self._stop = asyncio.Event()
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

    def now(self) -> float:
        """The store's time, which all hosts share."""
        return monotonic() + self._clock_ahead_seconds

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
        await self.tree.leave()
        await asyncio.gather(self.following.leave_runs(), self.lendings.leave())
        peers = [node for node in self.following.present if node != self.node]
        await self.files.hand_over_results(self.parts.client, peers)
        self.stop()

    # --- life ------------------------------------------------------------------------------------

    async def run(self, on_ready: "asyncio.Event | None" = None) -> None:
        settings = self._settings
        make_directory(settings.depot)
        lock = DirectoryLock(settings.depot)
        try:
            await self.files.check()
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
        files, following, outcomes = self.files, self.following, self._outcomes
        self.registry = registry
        hash_threads = ThreadPoolExecutor(4, "dataward-hash")
        sync_thread = ThreadPoolExecutor(1, "dataward-sync")
        backlog = Backlog(on_error=lambda error: log.warning("%s", error))
        work = settings.depot / "work"
        end_leftovers(work)
        self.lendings.clear()
        slots = PromisedSlots(
            settings.slots,
            self.now,
            speed=settings.speed,
            place=address_of(settings.node, 0),
            bytes_per_second=settings.bytes_per_second or BYTES_PER_SECOND,
        )
        pool = RunnerPool(work, settings.slots, slots)
        client = PeerClient(following.address_of, credentials)
        self.tree = TreeHere(settings.node, slots, pool.running, client, pool.on_promises)
        server = NodeServer(
            following.mailbox,
            files.find,
            files.new_upload,
            files.take_upload,
            credentials,
            routes=[
                *Gateway(self).routes(),
                *PromiseRoutes(self).routes(),
                *self.lendings.routes(),
            ],
        )
        await client.open()
        watch = HostWatch(settings.node, credentials, following.on_gone)
        try:
            # Before it listens: the one that is asked for by this name must not be this one.
            incarnation, clock_ahead_seconds = await self._greet(registry, watch)
            self._clock_ahead_seconds = clock_ahead_seconds
            port = await server.start(settings.listen, settings.port)
            self.address = settings.address or f"{_own_name(settings.listen)}:{port}"
            self.parts = HostParts(
                node=settings.node,
                cluster=self._access.cluster,
                depot=settings.depot,
                slots=settings.slots,
                memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
                incarnation=incarnation,
                lease_seconds=settings.lease_seconds,
                index=files.index,
                pool=pool,
                client=client,
                connection=connection,
                capacity_bytes=files.capacity_bytes,
                hash_threads=hash_threads,
                sync_thread=sync_thread,
                backlog=backlog,
                clock_ahead_seconds=clock_ahead_seconds,
                remember=outcomes.remember,
                spoil=following.spoil,
                fetch_part=partial(files.fetch_part, client),
                keep_part=files.keep_part,
                note_served=files.note_served,
                slots_promised=slots,
                asking=PromiseAsking(self.tree),
            )
            self._has_joined = True
            on_run_over = partial(outcomes.tell, registry)
            following.begin(self.parts, registry, watch, self.as_member, on_run_over, self.tree)
            loops = [
                asyncio.create_task(loop, name=name)
                for name, loop in (
                    ("renew", self._keep_renewing()),
                    ("news", following.follow_news()),
                    ("outcomes", outcomes.keep_telling(registry)),
                    ("room", files.keep_room(following.here)),
                    ("shared room", following.share_room()),
                    ("begin again", following.begin_failed_again()),
                    ("tree", self.tree.live()),
                )
            ]
            if on_ready is not None:
                on_ready.set()
            stop = asyncio.create_task(self._stop.wait())
            done, _ = await asyncio.wait([stop, *loops], return_when=asyncio.FIRST_COMPLETED)
            await end_all([stop, *loops])
            for over in done - {stop}:
                over.result()  # raises what ended it
        finally:
            self.stop()  # so that whoever watches this host is let go
            await watch.close()
            await self.lendings.close()
            await self.tree.close()
            await following.stop_runs()
            if self._has_joined:
                with suppress(StoreUnavailable):
                    await registry.drop(self.as_member())  # not another's, which took the name over
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

    async def _greet(self, registry: Registry, watch: HostWatch) -> tuple[int, float]:
        """This host's incarnation, and how far the store's clock is ahead, once the store answers.

        A store may be starting, or failing over. Raises StoreUnavailable if it takes too long, and
        SettingError if another host has this name.
        """
        until = monotonic() + START_SECONDS
        while True:
            try:
                await self._check_name(registry, watch)
                incarnation = await self._next_incarnation(registry)
                return incarnation, await clock_ahead_seconds(registry.now)
            except StoreUnavailable as error:
                if monotonic() > until:
                    raise
                log.warning("%s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _check_name(self, registry: Registry, watch: HostWatch) -> None:
        """Raise SettingError if a host of this name is a member, and answers.

        One that crashed is a member until its lease ends, but nobody answers for it.
        """
        for member in await registry.members():
            if member.node == self.node and await watch.answers(member):
                raise SettingError(
                    f"there is a node called {self.node} already, at {member.address}; "
                    f"give this one a name of its own with --name, or end that one first "
                    f"('dataward drain {self.node}')"
                )

    async def _next_incarnation(self, registry: Registry) -> int:
        """One more than ever before: by the depot, and by the registry if the depot is new."""
        path = self._settings.depot / "incarnation"
        before = int(path.read_text()) if path.exists() else 0
        incarnation = await registry.next_incarnation(self._settings.node, before)
        replace_content(path, f"{incarnation}\n".encode())
        return incarnation

    async def _keep_renewing(self) -> None:
        settings = self._settings
        while True:
            try:
                await self.registry.renew(self.as_member(), settings.lease_seconds)
            except StoreUnavailable as error:
                log.warning("%s", error)
            await asyncio.sleep(settings.lease_seconds / 3)


async def clock_ahead_seconds(
    store_now: Callable[[], Awaitable[float]], clock: Callable[[], float] = monotonic
) -> float:
    """How far the store's clock is ahead of this machine's, by the quickest of its answers.

    A busy machine hears an answer late: the time of a single one may be wrong by seconds.
    """
    best = (inf, 0.0)
    for _ in range(CLOCK_TRIES):
        asked = clock()
        there = await store_now()
        heard = clock()
        best = min(best, (heard - asked, there - (asked + heard) / 2))
        if heard - asked <= QUICK_SECONDS:
            break
    return best[1]


def _own_name(listen: str) -> str:
    """How others reach this machine, if they are not told."""
    if listen in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{listen}]" if ":" in listen else listen
