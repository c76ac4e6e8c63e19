"""The files of a host: all that is in its depot, what is put there, and how room is made."""

import asyncio
import logging
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic

import msgspec

from dataward.cluster.leftovers import leftovers
from dataward.cluster.run_here import RunDirectoryHere
from dataward.live.depot_disk import Place, clear_incoming
from dataward.live.digest_index import DigestIndex, believed
from dataward.live.durability import replace_content
from dataward.live.kept_files import read_file
from dataward.live.peer_client import PeerClient
from dataward.live.sandbox import place_in_depot, put_in_depot
from dataward.live.trees import remove_tree
from dataward.model.ids import NodeId
from dataward.world import TransferFailed

log = logging.getLogger(__name__)

DISK_SHARE = 0.95  # of what the disk has, if nobody says how much the depot may hold
HANDED_AT_ONCE = 8
ROOM_SECONDS = 1.0
ASKED_SECONDS = 60.0  # for which an upload stays that somebody who submits a run has asked for
ROOM_SHARE = 0.8  # of the capacity: beyond that, what ended runs have left goes


class HostFiles:
    def __init__(self, node: NodeId, depot: Path, capacity_bytes: float) -> None:
        self.index = DigestIndex()
        self._node = node
        self._depot = depot
        self._given_bytes = capacity_bytes
        self._room_bytes = inf
        self._served: set[str] = set()  # digests of uploads that a run here has had
        self._asked: dict[str, float] = {}  # when those were last asked for

    @property
    def _uploads(self) -> Path:
        return self._depot / "uploads"

    async def check(self) -> None:
        """Read every file in the depot again: only what is as its name says counts."""
        depot = self._depot
        (self._uploads / "incoming").mkdir(parents=True, exist_ok=True)
        clear_incoming(self._uploads)
        directories = [self._uploads, *(path / "files" for path in (depot / "runs").glob("*"))]
        for place in await asyncio.to_thread(believed, directories):
            self.index.add(place)
        free = shutil.disk_usage(depot).free
        on_disk = DISK_SHARE * (free + self.index.used_bytes)
        self._room_bytes = min(self._given_bytes, on_disk)

    def new_upload(self) -> str:
        return f"{self._uploads}/incoming/{token_hex(8)}"

    def take_upload(self, path: str, size_bytes: int, digest: str) -> None:
        own = put_in_depot(path, str(self._uploads), digest, os.path.basename(path))
        self.index.add(Place(own, size_bytes, digest, False, os.stat(own).st_mtime_ns))

    def find(self, digest: str) -> Place | None:
        """A file with this content, for who asks for it: perhaps the submitter of another run."""
        if digest in self._served:
            self._asked[digest] = monotonic()
        return self.index.find(digest)

    def note_served(self, digests: Iterable[str]) -> None:
        """Uploads for a run that has begun here: they may go when no run links them any more."""
        self._served.update(digests)

    def _has_served(self, digest: str) -> bool:
        asked_at = self._asked.get(digest, -inf)
        return digest in self._served and monotonic() - asked_at > ASKED_SECONDS

    def capacity_bytes(self) -> float:
        return self._room_bytes

    async def keep_room(self, going_on: Collection[str]) -> None:
        """Let what ended runs have left make room for those that go on."""
        while True:
            await asyncio.sleep(ROOM_SECONDS)
            excess = self.index.used_bytes - ROOM_SHARE * self._room_bytes
            if excess > 0:
                await asyncio.to_thread(self.make_room, excess, going_on)

    def make_room(self, excess_bytes: float, going_on: Collection[str]) -> None:
        """Remove what ended runs have left, up to so many bytes."""
        for place in leftovers(self._depot, self.index, set(going_on), self._has_served):
            if excess_bytes <= 0:
                return
            self.index.discard(place)
            with suppress(FileNotFoundError):
                os.unlink(place.path)
            excess_bytes -= place.size_bytes

    async def fetch_part(self, client: PeerClient, digest: str, holders: Sequence[NodeId]) -> bytes:
        """A part of a run's description, from here or from one of these hosts."""
        pause = 0.1
        while True:
            place = self.index.find(digest)
            if place is not None:
                return Path(place.path).read_bytes()
            for node in holders:
                if node == self._node:
                    continue
                try:
                    content = await read_file(client, node, digest)
                except TransferFailed as error:
                    log.info("%s", error)
                    continue
                self.keep_part(content, digest)
                return content
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)

    async def hand_over_results(self, client: PeerClient, peers: Sequence[NodeId]) -> None:
        """Have other hosts hold, for good, the results of ended runs that this host has."""
        runs = [RunDirectoryHere(self._depot, path.name) for path in self._depot.glob("runs/*")]
        results = {run.path.name: run.kept() for run in runs}
        lone = sorted(set().union(*results.values()))
        held: dict[NodeId, set[str]] = {peer: set() for peer in peers}
        for peer in peers if lone else ():
            with suppress(TransferFailed):
                held[peer] = await client.have(peer, lone)
                lone = [digest for digest in lone if digest not in held[peer]]
        turns = asyncio.Semaphore(HANDED_AT_ONCE)

        async def hand_over(number: int, place: Place) -> None:
            async with turns:
                for peer in (*peers[number % len(peers) :], *peers[: number % len(peers)]):
                    try:
                        await client.put_file(peer, place.path, place.digest)
                        held[peer].add(place.digest)
                        return
                    except TransferFailed as error:
                        log.warning("%s", error)

        places = [place for place in map(self.index.find, lone) if place is not None]
        if peers:
            await asyncio.gather(*(hand_over(n, place) for n, place in enumerate(places)))
            await _have_all_kept(client, held, results)
        elif places:
            log.warning("nobody else can hold the results of ended runs: they stay in this depot")

    def keep_results(self, run: str, digests: Sequence[str]) -> None:
        """Have files that are here stay until the run is cleaned. Raises OSError."""
        directory = RunDirectoryHere(self._depot, run)
        here = [place for digest in digests if (place := self.index.find(digest)) is not None]
        directory.add_results(place.digest for place in here)
        directory.files.mkdir(exist_ok=True)
        for place in here:
            # A name of the run's own: the file may be that of another run, which may be cleaned.
            path = place_in_depot(str(directory.files), place.digest, "kept")
            with suppress(FileExistsError):
                os.link(place.path, path)
            self.index.add(replace(place, path=path))

    def keep_part(self, content: bytes, digest: str) -> None:
        path = Path(self.new_upload())
        replace_content(path, content)
        os.chmod(path, 0o444)
        self.take_upload(str(path), len(content), digest)

    def remove_run(self, name: str) -> None:
        """Remove all files of a run that is over."""
        directory = RunDirectoryHere(self._depot, name)
        if directory.path.is_dir():
            for place in self.index.places_below(str(directory.files)):
                self.index.discard(place)
            remove_tree(directory.path)


async def _have_all_kept(
    client: PeerClient, held: Mapping[NodeId, Collection[str]], results: Mapping[str, set[str]]
) -> None:
    """Tell hosts which of the files that they have are results of which run."""
    for peer, digests in held.items():
        for run, kept in results.items():
            if ours := sorted(kept.intersection(digests)):
                await have_kept(client, peer, run, ours)


async def have_kept(client: PeerClient, peer: NodeId, run: str, digests: Sequence[str]) -> None:
    """Have a host keep those of these results of a run that it has."""
    content = msgspec.msgpack.encode(digests)
    if not await client.leave(peer, f"/runs/{run}/results", content):
        log.warning("%s may not keep the results of %s", peer, run)
