"""Small files of other hosts: those asked for at the same time come in one request."""

import asyncio
import os
from contextlib import aclosing, suppress
from dataclasses import dataclass

from blake3 import blake3

from dataward.live.depot_disk import Place
from dataward.live.file_frames import ABSENT, ALONE, FileFrame
from dataward.live.peer_client import BROKEN, PeerClient
from dataward.live.sandbox import FROM_ELSEWHERE
from dataward.live.served_files import BATCH_MAX, CHUNK_BYTES
from dataward.model.ids import NodeId
from dataward.world import DiskFull, TransferFailed

WRITTEN_MAX = 256  # files that a thread writes before others hear of them


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file that somebody waits for; it comes to ``path``, which belongs to whoever waits."""

    digest: str
    path: str
    place: asyncio.Future[Place | None]  # None: the file must be asked for alone


@dataclass(frozen=True, slots=True)
class _Came:
    wanted: _Wanted
    frame: FileFrame


class SmallFiles:
    """One node's fetches of small files. ``close`` it inside the loop."""

    def __init__(self, client: PeerClient) -> None:
        self._client = client
        self._lines: dict[NodeId, list[_Wanted]] = {}  # those that wait, by source
        self._senders: dict[NodeId, asyncio.Task[None]] = {}

    async def close(self) -> None:
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        for line in self._lines.values():  # of senders that had not even begun
            _fail(line, TransferFailed("it is not asked for any more"))

    async def fetch(self, digest: str, source: NodeId, path: str) -> Place | None:
        """Where the whole file is, at this path; None if it is too large to come with others.

        Raises TransferFailed or DiskFull. The file at the path is the caller's, also if this fails.
        """
        wanted = _Wanted(digest, path, asyncio.get_running_loop().create_future())
        self._lines.setdefault(source, []).append(wanted)
        if source not in self._senders:
            sender = asyncio.create_task(self._fetch_all(source), name=f"batches of {source}")
            self._senders[source] = sender
        return await wanted.place

    async def _fetch_all(self, source: NodeId) -> None:
        """Fetch batch after batch until nobody waits for this source any more."""
        line: list[_Wanted] = []
        try:
            while line := self._lines.pop(source, []):
                for first in range(0, len(line), BATCH_MAX):
                    await self._fetch_batch(source, line[first : first + BATCH_MAX])
        finally:
            del self._senders[source]
            _fail(
                [*line, *self._lines.pop(source, [])],
                TransferFailed("it is not asked for any more"),
            )

    async def _fetch_batch(self, source: NodeId, batch: list[_Wanted]) -> None:
        """All files of a batch; if the connection breaks off, the rest is asked for once more."""
        failure = TransferFailed(f"{source} sends nothing more")
        for _ in range(2):
            try:
                await self._receive(source, [one for one in batch if not one.place.done()])
                break
            except BROKEN as error:
                failure = TransferFailed(f"{source} broke off: {error}")
            except TransferFailed as error:
                failure = error
                break
        _fail(batch, failure)

    async def _receive(self, source: NodeId, batch: list[_Wanted]) -> None:
        """A thread writes the files that have come while others come."""
        if not batch:
            return
        loop = asyncio.get_running_loop()
        came: list[_Came] = []
        came_bytes = 0
        writing: asyncio.Future[None] = loop.create_future()
        writing.set_result(None)
        asked = self._client.fetch_batch(source, [wanted.digest for wanted in batch])
        try:
            waiting = iter(batch)
            async with aclosing(asked) as frames:
                async for frame in frames:
                    came.append(_Came(next(waiting), frame))
                    came_bytes += len(frame.content)
                    if came_bytes >= CHUNK_BYTES or len(came) >= WRITTEN_MAX:
                        await writing
                        writing = asyncio.ensure_future(_write_and_tell(came))
                        came, came_bytes = [], 0
        finally:
            await asyncio.wait([writing])
            await _write_and_tell(came)


async def _write_and_tell(came: list[_Came]) -> None:
    awaited = [one for one in came if not one.wanted.place.done()]
    loop = asyncio.get_running_loop()
    written = await loop.run_in_executor(None, _write_all, awaited)
    for one, result in zip(awaited, written, strict=True):
        place = one.wanted.place
        if place.done():  # cancelled meanwhile: whoever waited is no longer there to remove it
            with suppress(FileNotFoundError):
                os.unlink(one.wanted.path)
        elif isinstance(result, TransferFailed | DiskFull):
            place.set_exception(result)
        else:
            place.set_result(result)


def _write_all(came: list[_Came]) -> list[Place | TransferFailed | DiskFull | None]:
    return [_written(one.wanted, one.frame) for one in came]


def _written(wanted: _Wanted, frame: FileFrame) -> Place | TransferFailed | DiskFull | None:
    """Where the file is now, or why it is not there; None if it must be asked for alone."""
    if frame.size_bytes == ALONE:
        return None
    if frame.size_bytes == ABSENT:
        return TransferFailed("the source does not have it")
    if blake3(frame.content).hexdigest() != wanted.digest:
        return TransferFailed("it came with other bytes than it should have")
    try:
        with open(wanted.path, "xb", buffering=0) as file:
            if file.write(frame.content) != len(frame.content):
                return DiskFull("a file cannot be written here: no room for all of it")
            os.fchmod(file.fileno(), FROM_ELSEWHERE)
            modified_ns = os.fstat(file.fileno()).st_mtime_ns
    except OSError as error:
        return DiskFull(f"a file cannot be written here: {error.strerror}")
    return Place(wanted.path, frame.size_bytes, wanted.digest, False, modified_ns)


def _fail(batch: list[_Wanted], failure: TransferFailed) -> None:
    for wanted in batch:
        if not wanted.place.done():
            wanted.place.set_exception(failure)
