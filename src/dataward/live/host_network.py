"""The network as one run's node on a host sees it.

A file whose content the host has already, from another run or from before a restart, is linked and
not moved. Inputs that are read where they are, from S3, a web server or a shared disk, are opened
by the node that needs them, with fsspec.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from blake3 import blake3

from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex
from dataward.live.host_disk import HostDisk
from dataward.live.remote_network import RemoteNetwork
from dataward.live.sandbox import FROM_ELSEWHERE
from dataward.model.events import Emit, FileMoved
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.messages import Message
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId
from dataward.world import Kernel, Queue, TransferFailed

PIECE_BYTES = 4 << 20


class HostNetwork:
    """``origins`` has the addresses of files that are read where they are."""

    def __init__(
        self,
        node: NodeId,
        kernel: Kernel,
        remote: RemoteNetwork,
        disk: HostDisk,
        index: DigestIndex,
        origins: Mapping[FileId, str],
        emit: Emit,
    ) -> None:
        self._node = node
        self._kernel = kernel
        self._remote = remote
        self._disk = disk
        self._index = index
        self._origins = origins
        self._emit = emit

    @property
    def inbox(self) -> Queue[Message]:
        return self._remote.inbox

    @property
    def together_bytes(self) -> int:
        return self._remote.together_bytes

    def doubts(self, node: NodeId) -> bool:
        return self._remote.doubts(node)

    def expected_rate(self, source: NodeId) -> float | None:
        return self._remote.expected_rate(source)

    def send(self, to: NodeId, message: Message) -> None:
        self._remote.send(to, message)

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        owner = file.producer or file.id
        place = self._index.find(file.digest) if file.digest else None
        if place is not None:
            self._disk.copy_from(file.id, place, owner)
        elif source == ORIGIN:
            await self._bring_in(file, owner)
        else:
            await self._remote.fetch(file, source)

    async def _bring_in(self, file: InputFile, owner: str) -> None:
        address = self._origins.get(file.id)
        if address is None:
            raise TransferFailed(
                "no node that is up has it: submit the workflow again, which uploads inputs or "
                "makes them again; with --copies 2 a lost node costs no result"
            )
        began, path = monotonic(), self._disk.path_for_incoming()
        try:
            place = await asyncio.to_thread(downloaded, address, path)
            if file.digest and place.digest != file.digest:
                raise TransferFailed(f"{file.id!r} has changed at {address}")
            self._disk.take_in(file.id, place, owner)
        except TransferFailed:
            raise
        except Exception as error:  # every file system of fsspec has errors of its own
            raise TransferFailed(f"{file.id!r} cannot be read from {address}: {error}") from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)
        now, seconds = self._kernel.now(), monotonic() - began
        self._emit(FileMoved(now, file.id, ORIGIN, self._node, place.size_bytes, seconds))


def downloaded(address: str, path: str) -> Place:
    """The place of a copy of what is at this address, hashed on the way."""
    import fsspec

    digest, size_bytes = blake3(), 0
    opened: Any = fsspec.open(address, "rb")
    with opened as source, open(path, "xb", buffering=0) as copy:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            copy.write(piece)
            size_bytes += len(piece)
        os.fchmod(copy.fileno(), FROM_ELSEWHERE)
        modified_ns = os.fstat(copy.fileno()).st_mtime_ns
    return Place(path, size_bytes, digest.hexdigest(), False, modified_ns)
