"""The ways in which the cluster is hurt, and how each is undone.

Nothing is done that nobody could recover from: an input, a result or a part of a run's description
is spoiled or removed only if another node has it too.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from typing import ClassVar

from valkey.exceptions import ValkeyError

from bench.cluster_chaos.rig import LEASE_SECONDS, Rig
from dataward.cluster.store_server import StoreServer
from dataward.cluster.troubles import TroubleKind
from dataward.live.sandbox import digest_in
from dataward.model.ids import NodeId

FILL_BYTES = 1 << 20
STORE_SECONDS = 60.0


@dataclass
class Done:
    """A trouble that the cluster was given; all times are those of the wall clock."""

    kind: TroubleKind
    node: NodeId | None = None
    digest: str = ""
    is_emptied: bool = False
    begin: float = field(default_factory=time.time)
    end: float = inf

    def undone(self) -> None:
        self.end = time.time()


@dataclass
class Harm:
    """Hurts one cluster. ``log`` has what was done in words, ``done`` for the history checker."""

    rig: Rig
    random: Random
    kept: Path  # where the events of emptied depots go
    spoiled: set[tuple[NodeId, str]]  # nodes and digests: a file may have several names there
    precious: set[str] = field(default_factory=set)  # digests that cannot be made again
    log: list[str] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    _undoing: list[asyncio.Task[None]] = field(default_factory=list)
    _down: set[NodeId] = field(default_factory=set)
    _is_store_hurt: bool = False

    async def do(self, kind: str) -> None:
        """Hurt the cluster in this way, if that can be done now."""
        what = await self.KINDS[kind](self)
        if what:
            self.log.append(what)

    async def undo_all(self) -> None:
        """Wait until all has been undone, and all nodes are there."""
        while self._undoing:
            await self._undoing.pop()
        await asyncio.to_thread(self.rig.start_nodes)  # one that found its disk full has ended
        await asyncio.to_thread(self.rig.wait_for, self.rig.names)

    def _note(self, kind: TroubleKind, node: NodeId | None = None, digest: str = "") -> Done:
        done = Done(kind, node, digest)
        self.done.append(done)
        return done

    def _later(self, seconds: float, undo: Callable[[], Awaitable[None]]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await undo()

        self._undoing.append(asyncio.create_task(wait()))

    # --- nodes -----------------------------------------------------------------------------------

    def _some_node(self) -> NodeId | None:
        up = [node for node in self.rig.names if node not in self._down]
        return self.random.choice(up) if len(up) > 1 else None

    def _kill(self, node: NodeId) -> Done:
        done = self._note(TroubleKind.KILLED, node)
        self.rig.signal(node, signal.SIGKILL)
        return done

    async def kill_node(self) -> str:
        return await self._kill_one(is_emptied=False)

    async def kill_and_empty(self) -> str:
        return await self._kill_one(is_emptied=True)

    async def _kill_one(self, *, is_emptied: bool) -> str:
        node, seconds = self._some_node(), self.random.uniform(0, 2.5 * LEASE_SECONDS)
        if node is None:
            return ""
        self._down.add(node)
        done = self._kill(node)
        if is_emptied := is_emptied and not self._only_at(node):
            done.is_emptied = True
            await asyncio.to_thread(self._empty, node)
        self._later(seconds, lambda: self._revive([done]))
        return f"{node} killed{' and emptied' * is_emptied} for {seconds:.1f} s"

    async def kill_all_nodes(self) -> str:
        seconds = self.random.uniform(0, 2 * LEASE_SECONDS)
        if self._down:
            return ""
        self._down.update(self.rig.names)
        killed = [self._kill(node) for node in self.rig.names]
        self._later(seconds, lambda: self._revive(killed))
        return f"all nodes killed for {seconds:.1f} s"

    async def _revive(self, killed: list[Done]) -> None:
        self._down.difference_update(one.node for one in killed if one.node is not None)
        await asyncio.to_thread(self.rig.start_nodes)
        for one in killed:
            one.undone()

    def _empty(self, node: NodeId) -> None:
        while self.rig.process_of(node) is not None:
            self.rig.reap()
            time.sleep(0.01)
        for events in self.rig.depot_of(node).glob("runs/*/events"):
            place = self.kept / events.parent.name
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(events, place / f"{node}.{len(self.done)}")
        self.rig.empty_depot(node)

    def _only_at(self, node: NodeId) -> Set[str]:
        """What only this node has of all that cannot be made again."""
        elsewhere = {
            place.digest
            for other in self.rig.names
            if other != node
            for place in self.rig.files_of(other)
            if (other, place.digest) not in self.spoiled
        }
        here = {place.digest for place in self.rig.files_of(node)}
        return (here & self.precious) - elsewhere

    async def pause_node(self) -> str:
        return await self._stop(self.random.uniform(0.1, 0.8) * LEASE_SECONDS)

    async def fence_node(self) -> str:
        """Longer than its lease, so that others take over while it still runs tasks."""
        return await self._stop(self.random.uniform(1.5, 3) * LEASE_SECONDS)

    async def _stop(self, seconds: float) -> str:
        node = self._some_node()
        if node is None or not self.rig.signal(node, signal.SIGSTOP):
            return ""
        self._down.add(node)
        done = self._note(TroubleKind.SILENT, node)

        async def go_on() -> None:
            self._down.discard(node)
            self.rig.signal(node, signal.SIGCONT)
            done.undone()

        self._later(seconds, go_on)
        return f"{node} stopped for {seconds:.1f} s"

    async def cut_off(self) -> str:
        """Pull the plug of a node: nothing comes or goes, and nobody is told."""
        node, seconds = self._some_node(), self.random.uniform(0.2, 3) * LEASE_SECONDS
        lan = self.rig.lan
        if node is None or lan is None:
            return ""
        self._down.add(node)
        done = self._note(TroubleKind.SILENT, node)
        await asyncio.to_thread(lan.cut, node)

        async def heal() -> None:
            await asyncio.to_thread(lan.heal, node)
            self._down.discard(node)
            done.undone()

        self._later(seconds, heal)
        return f"{node} cut off for {seconds:.1f} s"

    async def kill_runner(self) -> str:
        node = self._some_node()
        runners = self.rig.runners_of(node) if node is not None else []
        if not runners:
            return ""
        self._note(TroubleKind.PROCESS, node).undone()
        with suppress(ProcessLookupError):
            os.kill(self.random.choice(sorted(runners)), signal.SIGKILL)
        return f"a runner of {node} killed"

    # --- files -----------------------------------------------------------------------------------

    async def spoil_file(self) -> str:
        found = self._some_file()
        if found is None:
            return ""
        self._note(TroubleKind.FILE, _node_in(found), digest_in(Path(found).name))
        with suppress(FileNotFoundError):
            size_bytes = os.stat(found).st_size
            with open(found, "r+b") as file:
                file.seek(self.random.randrange(max(size_bytes, 1)))
                file.write(b"\xa5\x5a")
            self.spoiled.add((_node_in(found), digest_in(Path(found).name)))
        return f"{Path(found).name[:8]} spoiled at {_node_in(found)}"

    async def remove_file(self) -> str:
        found = self._some_file()
        if found is None:
            return ""
        self._note(TroubleKind.FILE, _node_in(found), digest_in(Path(found).name))
        with suppress(FileNotFoundError):
            os.unlink(found)
        return f"{Path(found).name[:8]} removed at {_node_in(found)}"

    def _some_file(self) -> str | None:
        node = self._some_node()
        if node is None:
            return None
        places = self.rig.files_of(node)
        only_here = self._only_at(node)
        fit = sorted(place.path for place in places if place.digest not in only_here)
        return self.random.choice(fit) if fit else None

    async def fill_disk(self) -> str:
        """Leave no room on the small disk."""
        path, seconds = self.rig.small_depot / "filler", self.random.uniform(1, 4)
        if not self.rig.has_small_disk or path.exists():
            return ""
        done = self._note(TroubleKind.FULL, self.rig.names[-1])
        with suppress(OSError), open(path, "wb", buffering=0) as file:
            while True:
                file.write(bytes(FILL_BYTES))

        async def free() -> None:
            path.unlink(missing_ok=True)
            done.undone()

        self._later(seconds, free)
        return f"the disk of {self.rig.names[-1]} full for {seconds:.1f} s"

    # --- the store -------------------------------------------------------------------------------

    async def fail_over(self) -> str:
        """Kill a primary after it was alone for a while: its last acknowledged writes are lost."""
        pairs = [] if self._is_store_hurt else await asyncio.to_thread(self.rig.pairs)
        if len(pairs) < self.rig.shards:
            return ""
        primary, replica = self.random.choice(pairs)
        alone = self.random.uniform(0, 1)
        self._is_store_hurt = True
        done = self._note(TroubleKind.STORE)
        with suppress(ValkeyError, OSError):
            self.rig.detach(primary, replica)
        await asyncio.sleep(alone)
        self.rig.kill_server(primary)

        async def wait_and_return() -> None:
            await asyncio.to_thread(self._wait_for_primary, replica)
            await self._store_returns(done)

        self._later(self.random.uniform(0, 2), wait_and_return)
        return f"primary {primary.port} alone for {alone:.1f} s, then killed"

    def _wait_for_primary(self, replica: StoreServer) -> None:
        """Return when the replica has taken over; a primary that is back earlier loses nothing."""
        until = time.monotonic() + STORE_SECONDS
        while time.monotonic() < until:
            with suppress(ValkeyError, OSError):
                if replica.told("INFO", "replication")["role"] == "master":
                    return
            time.sleep(0.05)
        raise TimeoutError("no replica took over")

    async def kill_store(self) -> str:
        if self._is_store_hurt:
            return ""
        seconds = self.random.uniform(0.5, 3)
        self._is_store_hurt = True
        done = self._note(TroubleKind.STORE)
        for server in self.rig.servers():
            self.rig.kill_server(server)
        self._later(seconds, lambda: self._store_returns(done))
        return f"all servers of the store killed for {seconds:.1f} s"

    async def _store_returns(self, done: Done) -> None:
        for server in self.rig.servers():
            await asyncio.to_thread(self.rig.attach, server)
        await asyncio.to_thread(self.rig.start_store)
        self._is_store_hurt = False
        done.undone()

    KINDS: ClassVar = {
        "kill": kill_node,
        "kill and empty": kill_and_empty,
        "kill all": kill_all_nodes,
        "pause": pause_node,
        "fence": fence_node,
        "cut": cut_off,
        "runner": kill_runner,
        "spoil": spoil_file,
        "remove": remove_file,
        "fill": fill_disk,
        "failover": fail_over,
        "store": kill_store,
    }
    """Each returns what it did, or "" if it could not be done now."""


def _node_in(path: str) -> NodeId:
    parts = Path(path).parts
    return NodeId(parts[parts.index("depots") + 1])
