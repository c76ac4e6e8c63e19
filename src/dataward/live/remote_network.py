"""The network between a run's nodes on several machines: messages and files over HTTP.

Messages to one node go one batch after another, in order; what cannot be delivered is dropped, for
`Network` lets messages be lost. A file is written beside the depot while it comes, hashed on the
way, and becomes this node's only if it is whole; a transfer that breaks off goes on where it was.
"""

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

import msgspec

from dataward.live.arriving import Arriving
from dataward.live.depot_disk import DepotDisk, Place
from dataward.live.node_server import Mail
from dataward.live.peer_client import BROKEN, PeerClient
from dataward.live.served_files import SMALL_BYTES
from dataward.live.small_files import SmallFiles
from dataward.model.events import Emit, FileMoved
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.messages import Message
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId
from dataward.world import DiskFull, Kernel, Queue, TransferFailed

BATCH_MAX = 1000  # messages in one request
LINE_MAX = 10_000  # messages that wait for one node; the oldest are dropped
TRIES = 3  # connections for one file, if they break off on the way


class RemoteNetwork:
    """The way of one run's node to the run's other nodes.

    The ``client`` is the host's, and must be open; ``close`` the network inside the loop.
    """

    together_bytes = SMALL_BYTES + 1

    def __init__(
        self,
        node: NodeId,
        run: str,
        kernel: Kernel,
        disk: DepotDisk,
        outside: Mapping[FileId, Place],
        client: PeerClient,
        emit: Emit,
    ) -> None:
        self.inbox: Queue[Message] = kernel.queue()
        self._node = node
        self._run = run
        self._kernel = kernel
        self._disk = disk
        self._outside = outside
        self._client = client
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._small = SmallFiles(client)
        self._lines: dict[NodeId, _Line] = {}

    async def close(self) -> None:
        """Send nothing more, not even what waits."""
        for line in self._lines.values():
            await line.close()
        await self._small.close()

    def doubts(self, node: NodeId) -> bool:
        return self._client.doubts(node)

    # --- messages --------------------------------------------------------------------------------

    def send(self, to: NodeId, message: Message) -> None:
        if to == self._node:
            self.inbox.put(message)
            return
        line = self._lines.get(to)
        if line is None:
            line = self._lines[to] = _Line(self._node, to, self._run, self._client, self._loop)
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
        if not file.digest:
            raise TransferFailed(f"{file.id!r} has no digest yet by which to ask for it")
        path = ""
        try:
            path, place = self._disk.path_for_incoming(), None
            if file.size_bytes < self.together_bytes:
                place = await self._small.fetch(file.digest, source, path)
            if place is None:
                place = await self._fetch_alone(file.digest, source, path)
            self._disk.take_in(file.id, place, owner)
            path = ""  # it is in the depot now
        except TransferFailed as failure:
            raise TransferFailed(f"{file.id!r} from {source}: {failure}") from failure
        except OSError as error:
            raise DiskFull(f"{file.id!r} cannot be written here: {error.strerror}") from error
        finally:
            if path:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        return place.size_bytes

    async def _fetch_alone(self, digest: str, source: NodeId, path: str) -> Place:
        with open(path, "xb", buffering=0) as beside:
            arriving = Arriving(digest, beside)
            await self._bring(arriving, source)
        return arriving.place(path)

    async def _bring(self, arriving: Arriving, source: NodeId) -> None:
        """All bytes of a file; if the connection breaks off, another one goes on from there."""
        for tries_left in reversed(range(TRIES)):
            try:
                await self._client.fetch_file(source, arriving)
                return
            except BROKEN as error:
                if not tries_left:
                    raise TransferFailed(f"it broke off: {error}") from error


class _Line:
    """The messages that wait for one node."""

    def __init__(
        self,
        node: NodeId,
        to: NodeId,
        run: str,
        client: PeerClient,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node = node
        self._to = to
        self._run = run
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
                taken = await self._client.leave_mail(self._to, self._run, mail, count)
                if not taken:
                    await self._client.leave_mail(self._to, self._run, mail, count)
            self.is_empty.set()
