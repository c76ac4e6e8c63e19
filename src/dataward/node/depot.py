"""The node's files: which are here, which may go when room is needed, how others are fetched."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

import msgspec

from dataward.model.answers import Begun, Standing
from dataward.model.events import FileEvicted, FileStored
from dataward.model.ids import NodeId
from dataward.model.messages import HoldOn, MayFetch
from dataward.model.operations import Copy, InputFile, Look, OutputFile, TaskSpec
from dataward.model.quantities import show_bytes
from dataward.model.workflow import FileId, TaskId
from dataward.node.fetching import Fetcher
from dataward.node.outbox import Outbox
from dataward.node.relays import Relays
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import DiskFull, Fiber, Flag, InputLost, StoredFile, TransferFailed, World

NotBrought = InputLost | TransferFailed | DiskFull


class Staged(NamedTuple):
    """How many bytes of a task's inputs were here, and how many came over the network."""

    local_bytes: int
    moved_bytes: int


@dataclass(slots=True)
class _Held:
    size_bytes: int
    owner: str  # the producing task, or the file's own id for a workflow input
    original: bool  # written here: the copy that others rely on, so never evicted
    digest: str = ""

    def keep(self) -> None:
        self.original = True

    def may_go(self) -> None:
        self.original = False


def as_committed(files: Sequence[InputFile], copies: Iterable[Copy]) -> tuple[InputFile, ...]:
    """Files with the sizes and digests that their producers committed, where those are known."""
    known = {copy.file: copy for copy in copies if copy.digest}
    if not known:
        return tuple(files)
    return tuple(
        msgspec.structs.replace(
            file, size_bytes=known[file.id].size_bytes, digest=known[file.id].digest
        )
        if file.id in known
        else file
        for file in files
    )


class DepotWatcher(Protocol):
    """Is told which files a depot holds."""

    def came(self, file: FileId) -> None: ...

    def went(self, file: FileId) -> None: ...


@dataclass
class Depot:
    """The least recently used copies are evicted first; files that a task reads or wrote stay."""

    world: World
    settings: NodeSettings
    store: StoreClient
    outbox: Outbox
    used_bytes: int = 0
    _held: dict[FileId, _Held] = field(default_factory=dict)
    # Those that are not originals, least recently used first. Originals pile up: were they among
    # these, each eviction would have to pass over all of them.
    _copies: dict[FileId, None] = field(default_factory=dict)
    _pins: dict[FileId, int] = field(default_factory=dict)
    _unwanted: set[FileId] = field(default_factory=set)  # to go when no task holds them
    _arriving: dict[FileId, Flag] = field(default_factory=dict)
    _watchers: list[DepotWatcher] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fetcher = Fetcher(self.world, self.settings, self.store)
        # Set while no file is on its way here, but not before `recover` has taken the files over.
        self.is_quiet = self.world.kernel.flag()
        self.has_recovered = self.world.kernel.flag()

    def __contains__(self, file: FileId) -> bool:
        return file in self._held

    @property
    def relays(self) -> Relays:
        return self._fetcher.relays

    def by_owner(self) -> dict[str, list[InputFile]]:
        """The files that are here, by the task that made them, or by themselves if none did."""
        files: dict[str, list[InputFile]] = {}
        for file, held in self._held.items():
            producer = TaskId("" if held.owner == file else held.owner)
            known = InputFile(file, held.size_bytes, producer, held.digest)
            files.setdefault(held.owner, []).append(known)
        return files

    def watch(self, watcher: DepotWatcher) -> None:
        """Tell the watcher from now on of files that come to be held, or are held no longer."""
        self._watchers.append(watcher)

    def _hold(self, file: FileId, held: _Held) -> None:
        self._held[file] = held
        if held.original:
            self._copies.pop(file, None)
        else:
            self._copies[file] = None
        for watcher in self._watchers:
            watcher.came(file)

    def _let_go(self, file: FileId) -> None:
        del self._held[file]
        self._copies.pop(file, None)
        for watcher in self._watchers:
            watcher.went(file)

    def on_message(self, message: MayFetch | HoldOn) -> None:
        """Heed another node's answer to the question for a file."""
        self._fetcher.on_message(message)

    async def recover(self) -> None:
        """Take over the files that an earlier incarnation left on the disk, and announce them."""
        files = self.world.disk.files()
        committed = await self._committed_here(files)
        for file in files:
            if file.written and file.owner not in committed:
                self.world.disk.remove(file.id)  # written by an attempt that never committed
                self._gone(file.id, file.size_bytes)
                continue
            is_original = file.written or file.kept
            self._hold(file.id, _Held(file.size_bytes, file.owner, is_original, file.digest))
            self.used_bytes += file.size_bytes
            self.outbox.announce(file.owner, Copy(file.id, self.world.node))
        self.is_quiet.set()
        self.has_recovered.set()

    async def _committed_here(self, files: Sequence[StoredFile]) -> set[str]:
        """The tasks whose outputs here count: those in the journal, and those the store knows of.

        A node that crashed before it heard of its commit does not have the commit in its journal.
        """
        committed: set[str] = {commit.task for commit in self.world.disk.journalled()}
        unsure = dict.fromkeys(f.owner for f in files if f.written and f.owner not in committed)
        for answer in await self.store.call([Look(TaskId(owner)) for owner in unsure]):
            assert isinstance(answer, Standing)
            if any(copy.node == self.world.node for copy in answer.copies):
                committed.add(answer.task)
        return committed

    # --- inputs ----------------------------------------------------------------------------------

    async def bring(self, begun: Begun) -> Staged:
        """How many bytes were here and how many came, once all inputs of a task are here.

        The inputs stay until ``release``. Raises InputLost, TransferFailed or DiskFull; then no
        input is kept for the task.
        """
        spec, copies = begun.spec, await self._told_copies(begun)
        inputs = as_committed(spec.inputs, copies)
        for file in inputs:
            self._pins[file.id] = self._pins.get(file.id, 0) + 1
        try:
            moved_bytes = await self._fetch_missing(spec.priority, inputs, copies)
            try:
                await self.world.disk.open_inputs(spec)
            except InputLost as lost:
                self._strike_off(lost.files)
                moved_bytes += await self._fetch_missing(spec.priority, inputs, copies)
                await self.world.disk.open_inputs(spec)
        except BaseException:
            self.release(spec)
            raise
        local_bytes = sum(file.size_bytes for file in inputs) - moved_bytes
        return Staged(max(local_bytes, 0), moved_bytes)  # what was lost here came twice

    async def _told_copies(self, begun: Begun) -> tuple[Copy, ...]:
        """Where the inputs are, with their sizes and digests.

        A task that ended knows no more than where its inputs were. If it runs again, what they
        contain is asked of their producers.
        """
        if begun.generation == 1:
            return begun.copies
        told = {copy.file for copy in begun.copies if copy.digest}
        untold = [file for file in begun.spec.inputs if file.producer and file.id not in told]
        return begun.copies + await self._fetcher.committed(untold)

    async def _fetch_missing(
        self, priority: float, inputs: Sequence[InputFile], copies: tuple[Copy, ...]
    ) -> int:
        """How many bytes were missing here, and have been fetched."""
        missing = [file for file in inputs if not self._touch(file.id)]
        if missing:
            await self._fetch_all(self.settings.precedence.of(priority), missing, copies)
        return sum(file.size_bytes for file in missing)

    def _strike_off(self, files: Sequence[InputFile]) -> None:
        """Forget files that have gone from the disk though the depot did not remove them."""
        for file in files:
            self._unwanted.discard(file.id)
            if file.id in self._held:
                self._evict(file.id)

    def release(self, spec: TaskSpec) -> None:
        for file in spec.inputs:
            pins = self._pins[file.id] - 1
            if pins:
                self._pins[file.id] = pins
            else:
                del self._pins[file.id]
                if file.id in self._unwanted:
                    self._unwanted.discard(file.id)
                    self.drop(file.id)

    def _touch(self, file: FileId) -> bool:
        if file in self._copies:
            del self._copies[file]
            self._copies[file] = None  # to the end: most recently used
            return True
        return file in self._held

    async def _fetch_all(
        self, urgency: float, files: list[InputFile], hints: tuple[Copy, ...]
    ) -> None:
        sources = await self._fetcher.sources(files, hints)
        if len(files) == 1:
            await self._fetch(urgency, files[0], sources[files[0].id])
            return
        fibers: list[Fiber[NotBrought | None]] = [
            self.world.kernel.spawn(self._try(urgency, file, sources[file.id]), f"fetch {file.id}")
            for file in files
        ]
        try:
            failures = [await fiber.join() for fiber in fibers]
        finally:
            for fiber in fibers:
                fiber.cancel()
        lost = [f for f, why in zip(files, failures, strict=True) if isinstance(why, InputLost)]
        if lost:
            raise InputLost(lost)  # all at once, so that their producers run side by side
        for failure in filter(None, failures):
            raise failure

    async def _try(
        self, urgency: float, file: InputFile, sources: list[NodeId]
    ) -> "NotBrought | None":
        try:
            await self._fetch(urgency, file, sources)
        except (InputLost, TransferFailed, DiskFull) as failure:
            return failure
        return None

    async def _fetch(
        self, urgency: float, file: InputFile, sources: list[NodeId], *, may_evict: bool = True
    ) -> None:
        while (arriving := self._arriving.get(file.id)) is not None:
            await arriving.wait()
        if file.id in self._held:
            return
        arrival = self._arriving[file.id] = self.world.kernel.flag()
        self.is_quiet.clear()
        try:
            await self._fetcher.turn(urgency, file)
            try:
                self.make_room(file.size_bytes, may_evict=may_evict)
                self.used_bytes += file.size_bytes
                try:
                    await self._fetcher.fetch(urgency, file, sources)
                except BaseException:
                    self.used_bytes -= file.size_bytes
                    raise
            finally:
                self._fetcher.over(urgency, file)
            self._keep_copy(file)
        finally:
            del self._arriving[file.id]
            if not self._arriving:
                self.is_quiet.set()
            arrival.set()

    async def stock(self, file: InputFile, *, for_good: bool = False, keep: bool = False) -> None:
        """Bring in a file that no task has asked for yet, if it can be had and there is room.

        No other file is evicted for it. A file that is here ``for_good`` is kept as those that were
        made here are: it may be the only copy that is left. So it comes before all others. One that
        is to be kept, since somebody counts on a second copy, has time, and copies may make room.
        """
        urgency = -inf if for_good else inf
        if self.settings.caching and file.id not in self._held:
            with suppress(InputLost, TransferFailed, DiskFull):
                sources = await self._fetcher.sources([file], ())
                await self._fetch(urgency, file, sources[file.id], may_evict=keep)
        if (for_good or keep) and file.id in self._held:
            self._held[file.id].keep()
            self._copies.pop(file.id, None)
            self.world.disk.keep(file)

    def _keep_copy(self, file: InputFile) -> None:
        """Hold a file that has arrived, and tell the others, unless it will not stay.

        If a task has made it here meanwhile, it is held already, and stays the original it is.
        """
        if file.id in self._held:
            self.used_bytes -= file.size_bytes
            return
        owner = file.producer or file.id
        self._hold(file.id, _Held(file.size_bytes, owner, False, file.digest))
        self._stored(file.id, file.size_bytes)
        if self.settings.caching:
            self.outbox.announce(owner, Copy(file.id, self.world.node))
        else:
            self.drop(file.id)

    # --- outputs ---------------------------------------------------------------------------------

    async def store_outputs(self, spec: TaskSpec) -> tuple[OutputFile, ...]:
        """The files a task wrote, now stored here. They count only once committed."""
        size_bytes = self.world.disk.output_bytes(spec)
        self.make_room(size_bytes)
        self.used_bytes += size_bytes
        try:
            outputs = await self.world.disk.store_outputs(spec)
        except BaseException:
            self.used_bytes -= size_bytes
            raise
        for file in outputs:
            if file.id in self._unwanted:
                # The new file replaces the unwanted one; do not delete it when the old one is
                # released.
                self._unwanted.discard(file.id)
                if file.id in self._held:
                    self.used_bytes -= self._held[file.id].size_bytes
                    self._let_go(file.id)
            self.used_bytes += file.size_bytes
            self._stored(file.id, file.size_bytes)
        self.used_bytes -= size_bytes  # which was set aside for them
        return outputs

    def recall(self, task: TaskId, files: Sequence[OutputFile]) -> list[OutputFile]:
        """Those of a task's outputs that an earlier run left on the disk: they are stored now.

        As those of `store_outputs`, they count only once committed.
        """
        found = []
        for file in files:
            with suppress(DiskFull):
                self.make_room(file.size_bytes)
                if self.world.disk.recall(file, task):
                    self.used_bytes += file.size_bytes
                    self._stored(file.id, file.size_bytes)
                    found.append(file)
        return found

    def keep_outputs(self, task: TaskId, outputs: Sequence[OutputFile]) -> None:
        """Keep the outputs of an attempt that was committed: others will ask for them."""
        for file in outputs:
            if file.id in self._held:  # a copy fetched from an earlier generation
                self.used_bytes -= self._held.pop(file.id).size_bytes
            self._hold(file.id, _Held(file.size_bytes, task, True, file.digest))
            self._unwanted.discard(file.id)  # made again because a task needs it

    def discard_outputs(self, outputs: Sequence[OutputFile]) -> None:
        for file in outputs:
            self.used_bytes -= file.size_bytes
            if file.id not in self._held:
                self.world.disk.remove(file.id)
                self._gone(file.id, file.size_bytes)

    def _stored(self, file: FileId, size_bytes: int) -> None:
        now = self.world.kernel.now()
        self.world.emit(FileStored(now, file, self.world.node, size_bytes))

    def _gone(self, file: FileId, size_bytes: int) -> None:
        now = self.world.kernel.now()
        self.world.emit(FileEvicted(now, file, self.world.node, size_bytes))

    def loose_ends(self) -> dict[str, int]:
        """How much of each kind is kept for tasks under way; all 0 when none is."""
        held_bytes = sum(held.size_bytes for held in self._held.values())
        return {
            "pinned files": len(self._pins),
            "files to drop after their task": len(self._unwanted),
            "arriving files": len(self._arriving),
            **self._fetcher.loose_ends(),
            "bytes in use beyond the files held": self.used_bytes - held_bytes,
        }

    # --- room ------------------------------------------------------------------------------------

    def made_here(self) -> dict[TaskId, list[FileId]]:
        """The files that stay because tasks wrote them here, by task."""
        made: dict[TaskId, list[FileId]] = {}
        for file, held in self._held.items():
            if held.original and held.owner != file and not self.world.disk.is_wanted(file):
                made.setdefault(TaskId(held.owner), []).append(file)
        return made

    def may_go(self, files: Iterable[FileId]) -> bool:
        """Let files that were written here be evicted, before all copies; whether there are any."""
        spent = {file: None for file in files if file in self._held}
        for file in spent:
            self._held[file].may_go()
        self._copies = {**spent, **self._copies}
        return bool(spent)

    def make_room(self, size_bytes: int, *, may_evict: bool = True) -> None:
        """Evict files until there is room, least recently used first. Raises DiskFull."""
        excess = self.used_bytes + size_bytes - self.world.disk.capacity_bytes
        if excess <= 0:
            return
        evictable: list[FileId] = []
        for file in self._copies:
            if excess <= 0 or not may_evict:
                break
            if file not in self._pins:
                evictable.append(file)
                excess -= self._held[file].size_bytes
        if excess > 0:
            raise DiskFull(self._no_room(size_bytes))
        for file in evictable:
            self._evict(file)

    def shed(self) -> None:
        """Evict all that may go and that no task here reads: others on this machine need room."""
        for file in [file for file in self._copies if file not in self._pins]:
            self._evict(file)

    def _no_room(self, size_bytes: int) -> str:
        capacity_bytes = max(self.world.disk.capacity_bytes, 0)
        going = sum(self._held[file].size_bytes for file in self._copies if file not in self._pins)
        return (
            f"{self.world.node} has no room for {show_bytes(size_bytes)} more: its depot may hold "
            f"{show_bytes(capacity_bytes)}, and {show_bytes(self.used_bytes - going)} must stay"
        )

    def drop(self, file: FileId) -> None:
        """Remove a file that nobody will ask for again, or that is damaged.

        A file that a task here reads is removed when the task ends: it may be a replica that lost
        but has not heard of it yet.
        """
        if file in self._pins:
            self._unwanted.add(file)
        elif file in self._held:
            self._evict(file)

    def _evict(self, file: FileId) -> None:
        held = self._held[file]
        self._let_go(file)
        self.used_bytes -= held.size_bytes
        self.world.disk.remove(file)
        self.outbox.retract(held.owner, Copy(file, self.world.node))
        self._gone(file, held.size_bytes)
