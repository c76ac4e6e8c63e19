"""The network between nodes on several machines: messages and files over HTTP.

Messages to one node go one batch after another, in order; what cannot be delivered is dropped, for
`Network` lets messages be lost. A file is written beside the depot while it comes, hashed on the
way, and becomes this node's only if it is whole; a transfer that breaks off goes on where it was.
"""

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import BinaryIO

import msgspec
from blake3 import blake3

from dataward.live.depot_disk import DepotDisk, Place
from dataward.live.node_server import CHUNK_BYTES, Mail
from dataward.live.peer_client import BROKEN, OpenedFile, PeerClient
from dataward.model.events import Emit, FileMoved
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.messages import Message
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId
from dataward.world import Kernel, Queue, TransferFailed

BATCH_MAX = 1000  # messages in one request
LINE_MAX = 10_000  # messages that wait for one node; the oldest are dropped
TRIES = 3  # connections for one file, if they break off on the way


class RemoteNetwork:
    """One node's way to the others. Its ``client`` must be open; ``close`` it inside the loop."""

    def __init__(
        self,
        node: NodeId,
        kernel: Kernel,
        disk: DepotDisk,
        outside: Mapping[FileId, Place],
        client: PeerClient,
        emit: Emit,
    ) -> None:
        self.inbox: Queue[Message] = kernel.queue()
        self._node = node
        self._kernel = kernel
        self._disk = disk
        self._outside = outside
        self._client = client
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._lines: dict[NodeId, _Line] = {}

    async def close(self) -> None:
        """Send nothing more, not even what waits."""
        for line in self._lines.values():
            await line.close()

    # --- messages --------------------------------------------------------------------------------

    def send(self, to: NodeId, message: Message) -> None:
        if to == self._node:
            self.inbox.put(message)
            return
        line = self._lines.get(to)
        if line is None:
            line = self._lines[to] = _Line(self._node, to, self._client, self._loop)
        line.add(message)

    async def all_sent(self) -> None:
        """Wait until everything sent so far has been taken by its node, or dropped."""
        for line in self._lines.values():
            await line.is_empty.wait()

    # --- files -----------------------------------------------------------------------------------

    def expected_rate(self, source: NodeId) -> float | None:
        return None  # nobody describes the links of a real cluster

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        began = monotonic()
        owner = file.producer or file.id
        if source == ORIGIN:
            size_bytes = self._take_outside(file, owner)
        else:
            size_bytes = await self._fetch(file, source, owner)
        now = self._kernel.now()
        self._emit(FileMoved(now, file.id, source, self._node, size_bytes, monotonic() - began))

    def _take_outside(self, file: InputFile, owner: str) -> int:
        place = self._outside.get(file.id)
        if place is None:
            raise TransferFailed(f"the origin has no {file.id!r}")
        if file.digest and place.digest != file.digest:
            raise TransferFailed(f"the origin has a different {file.id!r}")
        return self._disk.copy_from(file.id, place, owner).size_bytes

    async def _fetch(self, file: InputFile, source: NodeId, owner: str) -> int:
        path = self._disk.path_for_incoming()
        try:
            with open(path, "xb", buffering=0) as beside:
                arrived = Arriving(file.id, file.digest, beside)
                await self._bring(arrived, source)
            place = arrived.place(path)
            self._disk.take_in(file.id, place, owner)
        except OSError as error:
            problem = error.strerror or str(error)
            raise TransferFailed(f"{file.id!r} cannot be written: {problem}") from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)  # unless it is in the depot now
        return place.size_bytes

    async def _bring(self, arriving: "Arriving", source: NodeId) -> None:
        """All bytes of a file; if the connection breaks off, another one goes on from there."""
        for tries_left in reversed(range(TRIES)):
            try:
                async with self._client.open_file(
                    source, arriving.name, arriving.digest, arriving.came_bytes
                ) as opened:
                    arriving.goes_on(opened)
                    async for chunk in opened.content.iter_chunked(CHUNK_BYTES):
                        arriving.add(chunk)
                if arriving.came_bytes == arriving.size_bytes:
                    return
            except BROKEN as error:
                if not tries_left:
                    why = f"{source} broke off sending {arriving.name!r}: {error}"
                    raise TransferFailed(why) from error
        raise TransferFailed(f"{source} sent too little of {arriving.name!r}")


@dataclass
class Arriving:
    """A file that comes in, perhaps over several connections, and is hashed on the way."""

    name: FileId
    digest: str  # "" until it is known
    beside: BinaryIO
    size_bytes: int = -1
    came_bytes: int = 0

    def __post_init__(self) -> None:
        self._hasher = blake3()

    def goes_on(self, opened: OpenedFile) -> None:
        """Begin, or go on, with what a connection brings: raises TransferFailed if that differs."""
        self.digest = self.digest or opened.digest
        if opened.digest != self.digest or self.size_bytes not in (-1, opened.size_bytes):
            raise TransferFailed(f"the source has had another {self.name!r} meanwhile")
        if opened.offset != self.came_bytes:  # it does not serve parts: from the start again
            self.beside.seek(0)
            self.beside.truncate()
            self.came_bytes, self._hasher = 0, blake3()
        self.size_bytes = opened.size_bytes

    def add(self, chunk: bytes) -> None:
        self._hasher.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[self.beside.write(view) :]
        self.came_bytes += len(chunk)

    def place(self, path: str) -> Place:
        """Where the whole file is. Raises TransferFailed if it is not what was asked for."""
        if self.came_bytes != self.size_bytes or self._hasher.hexdigest() != self.digest:
            raise TransferFailed(f"{self.name!r} came with other bytes than it should have")
        os.chmod(path, 0o444)
        return Place(path, self.size_bytes, self.digest, False, os.stat(path).st_mtime_ns)


class _Line:
    """The messages that wait for one node."""

    def __init__(
        self, node: NodeId, to: NodeId, client: PeerClient, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._node = node
        self._to = to
        self._client = client
        self._waiting: deque[Message] = deque(maxlen=LINE_MAX)
        self._grown = asyncio.Event()
        self.is_empty = asyncio.Event()
        self._sender = loop.create_task(self._send_all(), name=f"mail for {to}")

    def add(self, message: Message) -> None:
        self._waiting.append(message)
        self.is_empty.clear()
        self._grown.set()

    async def close(self) -> None:
        self._sender.cancel()
        with suppress(asyncio.CancelledError):
            await self._sender

    async def _send_all(self) -> None:
        encoder = msgspec.msgpack.Encoder()
        while True:
            await self._grown.wait()
            self._grown.clear()
            while self._waiting:
                count = min(len(self._waiting), BATCH_MAX)
                batch = tuple([self._waiting.popleft() for _ in range(count)])
                mail = encoder.encode(Mail(self._node, batch))
                # Once more: a connection that stood idle may have been closed by the other end.
                taken = await self._client.leave_mail(self._to, mail)
                if not taken:
                    await self._client.leave_mail(self._to, mail)
            self.is_empty.set()
