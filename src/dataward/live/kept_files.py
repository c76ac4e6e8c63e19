"""Files of other hosts, for those who have no depot: read into memory, or written to a path."""

import os

from blake3 import blake3

from dataward.live.arriving import Arriving
from dataward.live.peer_client import BROKEN, PeerClient
from dataward.live.served_files import CHUNK_BYTES
from dataward.model.ids import NodeId
from dataward.world import TransferFailed

READ_BYTES_MAX = 1 << 32


async def read_file(client: PeerClient, source: NodeId, digest: str) -> bytes:
    """A file's content, checked. Raises TransferFailed."""
    try:
        async with client.open_file(source, digest) as opened:
            if opened.size_bytes > READ_BYTES_MAX:
                raise TransferFailed(f"{digest} is too large to be read")
            content = await opened.content.read()
    except BROKEN as error:
        raise TransferFailed(f"{source} broke off: {error}") from error
    if blake3(content).hexdigest() != digest:
        raise TransferFailed(f"{source} gave other bytes than {digest} has")
    return content


async def download(client: PeerClient, source: NodeId, digest: str, path: str) -> bool | None:
    """Write a file to this path, whole and checked. Raises TransferFailed, OSError.

    Returns whether it is a program; None if the source does not know.
    """
    try:
        with open(path, "wb", buffering=0) as beside:
            arriving = Arriving(digest, beside)
            async with client.open_file(source, digest) as opened:
                is_program = opened.is_program
                arriving.goes_on(opened.size_bytes, opened.offset)
                async for chunk in opened.content.iter_chunked(CHUNK_BYTES):
                    arriving.add(chunk)
            os.fsync(beside.fileno())
    except BROKEN as error:
        raise TransferFailed(f"{source} broke off: {error}") from error
    arriving.place(path)
    return is_program
