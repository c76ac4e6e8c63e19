"""Follows the registry: who is a member of the cluster, and which runs there are.

For each run that goes on, the host begins a part of its own (`RunHere`) and, if it is one of the
run's keepers, looks after the run; when the run is over, both end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from dataward.cluster.ending_tasks import end_all
from dataward.cluster.host_watch import HostWatch
from dataward.cluster.keeper import Keeper, leader_of
from dataward.cluster.run_here import INCARNATIONS, HostParts, RunDirectoryHere, RunHere
from dataward.cluster.tree_here import TreeHere
from dataward.errors import SettingError
from dataward.live.durability import replace_content
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, Member
from dataward.model.messages import Message
from dataward.model.states import RunState
from dataward.stores.registry import Registry
from dataward.world import Queue, StoreUnavailable

log = logging.getLogger(__name__)

NEWS_SECONDS = 30.0  # how long to wait for news before looking anyway
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
ROOM_SECONDS = 1.0


class Following:
    """``begin`` it with what the host has, once the host is up; then ``follow_news`` for ever."""

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self.members: list[Member] = []
        self.present: list[NodeId] = []  # the members that take work
        self.runs: dict[str, ClusterRun] = {}
        self.here: dict[str, RunHere] = {}
        self.keepers: dict[str, Keeper] = {}
        self.changed = asyncio.Event()  # set and cleared whenever members or runs have changed
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._failed = asyncio.Event()  # a run has ended here by a fault
        self._server_run = ""  # the registry's server process, as last seen
        self._dropped: set[NodeId] = set()  # of those that have gone, those that the registry lost
        self._dropping: set[asyncio.Task[None]] = set()

    def begin(
        self,
        parts: HostParts,
        registry: Registry,
        watch: HostWatch,
        as_member: Callable[[], Member],
        on_run_over: Callable[[], Awaitable[None]],
        tree: TreeHere,
    ) -> None:
        self._parts = parts
        self._registry = registry
        self._watch = watch
        self._as_member = as_member  # this host, as it is now
        self._on_run_over = on_run_over
        self._tree = tree

    # --- who and what there is -------------------------------------------------------------------

    async def follow_news(self) -> None:
        position = ""
        while True:
            try:
                if not position:
                    position = await self._registry.news("", 0.0)
                await self._look()
                position = await self._registry.news(position, NEWS_SECONDS)
            except (StoreUnavailable, OSError) as error:  # of the disk: it may have room later
                log.warning("%s", error)
                position = ""
                await asyncio.sleep(RETRY_SECONDS)

    async def _look(self) -> None:
        """Read who is a member and which runs there are, and follow them."""
        dropped = set(self._dropped)  # before the list is read: one that is in it was silent, only
        self.members = await self._registry.members()
        for member in self.members:
            if member.node in dropped:
                self._dropped.discard(member.node)
                self._parts.gone.pop(member.node, None)
        present = {
            member.node: member
            for member in self.members
            if not member.draining and not self._has_gone(member)
        }
        own = self._as_member()
        self._check_name(own)
        if not own.draining:
            present.setdefault(self._node, own)
        self.present = sorted(present) or [self._node]
        self._watch.follow(self.members)
        self._tree.follow(self.members)
        for here in self.here.values():
            here.members.become(self.present)
        await self._tell_again()
        self.runs = {run.name: run for run in await self._registry.runs()}
        for name, run in self.runs.items():
            if run.state is RunState.RUNNING and name not in self.here and not self._is_leaving:
                self._begin(run)
        for name, here in list(self.here.items()):
            known = self.runs.get(name)
            if known is None or known.state is not RunState.RUNNING:
                await self._end(here)
            else:
                here.follow(known)
        self.changed.set()
        self.changed.clear()

    def _check_name(self, own: Member) -> None:
        """Raise SettingError if another host took this one for gone, and has its name now."""
        for member in self.members:
            if member.node == own.node and member.incarnation > own.incarnation:
                raise SettingError(
                    f"another node called {own.node} was started, at {member.address}, while this "
                    "one did not answer, so this one ends; each node needs a --name of its own"
                )

    @property
    def _is_leaving(self) -> bool:
        return self._as_member().draining

    async def _tell_again(self) -> None:
        """Tell a registry that has lost everything, or a little, of the runs that go on here."""
        server_run = await self._registry.server_run()
        if self._server_run and self._server_run != server_run:
            # It may not have heard of the last runs, of which those hosts know that were told.
            for run in self.runs.values():
                if run.state is RunState.RUNNING:
                    await self._registry.add_run(run)
        self._server_run = server_run
        depot = self._parts.depot
        path = depot / "registry"
        known = path.read_text() if path.exists() else ""
        birth = await self._registry.birth()
        if known and known != birth:
            log.warning("the store has forgotten the runs; they are told again")
            for directory in sorted((depot / "runs").glob("*")):
                recorded = RunDirectoryHere(depot, directory.name).recorded()
                if recorded is not None and recorded.state is RunState.RUNNING:
                    await self._registry.add_run(recorded)
        if known != birth:
            replace_content(path, birth.encode())

    def note_run(self, run: ClusterRun) -> None:
        """Know of a run that somebody has submitted here, should the registry forget it."""
        self.runs.setdefault(run.name, run)

    def leads(self, run: ClusterRun) -> bool:
        return leader_of(run, self.present) == self._node

    def address_of(self, node: NodeId) -> str | None:
        return next((m.address for m in self.members if m.node == node), None)

    async def on_gone(self, member: Member) -> None:
        """Have others take over at once from a host whose process has ended.

        Should it live after all, it finds itself fenced, as if its lease had expired.
        """
        log.warning("%s has gone: nobody listens at %s", member.node, member.address)
        before = self._parts.gone[member.node] = (member.incarnation + 1) * INCARNATIONS
        for here in self.here.values():
            here.give_up(member.node, before)
        # The news of it may end this very watch.
        dropping = asyncio.create_task(self._drop(member), name=f"drop {member.node}")
        self._dropping.add(dropping)
        dropping.add_done_callback(self._dropping.discard)
        await asyncio.shield(dropping)

    async def _drop(self, member: Member) -> None:
        with suppress(StoreUnavailable):
            await self._registry.drop(member)
            self._dropped.add(member.node)

    def _has_gone(self, member: Member) -> bool:
        """Whether a member has ended, and the list that has it is older than that."""
        return self._parts.gone.get(member.node, 0) > member.incarnation * INCARNATIONS

    # --- the runs here ---------------------------------------------------------------------------

    def _begin(self, run: ClusterRun) -> None:
        here = RunHere(self._parts, run, self.present, self._failed.set)
        here.start()
        self.here[run.name] = here
        if self._node in run.keepers:
            keeper = self.keepers[run.name] = Keeper(self._parts, self._registry, here)
            tending = asyncio.create_task(keeper.tend(self.members), name=f"keep {run.name}")
            self._tending[run.name] = tending

    async def _end(self, here: RunHere) -> None:
        name = here.run.name
        self.here.pop(name, None)
        self.keepers.pop(name, None)
        tending = self._tending.pop(name, None)
        await here.stop()
        if tending is not None:
            await end_all([tending])
        run = self.runs.get(name)
        if run is not None:
            here.directory.make(run)
        with suppress(StoreUnavailable):  # they are told again
            await self._on_run_over()

    async def begin_failed_again(self) -> None:
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
                    if is_wanted and name not in self.here and not self._is_leaving:
                        self._begin(self.runs[name])
                except OSError as error:
                    log.warning("%s", error)
                    self.here.setdefault(name, here)
                    self._failed.set()

    async def share_room(self) -> None:
        """Have runs let go of what they can do without, for others here that find no room."""
        while True:
            await asyncio.sleep(ROOM_SECONDS)
            short = {name for name, here in self.here.items() if here.waits_for_room}
            for name, here in list(self.here.items()):
                if short - {name}:
                    with suppress(StoreUnavailable):
                        await here.give_way()

    async def leave_runs(self) -> None:
        """Let what runs here end, and hand over what others may need."""
        await asyncio.gather(*[here.leave() for here in self.here.values()])

    async def stop_runs(self) -> None:
        """End this host's part in all runs at once."""
        for here in list(self.here.values()):
            await here.stop()
        await end_all(list(self._tending.values()))

    def spoil(self, digest: str) -> None:
        """Files of this content are damaged, in whichever run here."""
        for here in self.here.values():
            if here.disk is not None:
                here.disk.spoil_content(digest)

    def mailbox(self, run: str) -> Queue[Message] | None:
        here = self.here.get(run)
        return here.inbox if here is not None else None
