"""What small things take on a real cluster, from one of its machines, as JSON.

    python bench/measured_latencies.py ACCESS NODE_ADDRESS DIRECTORY

ACCESS is a node's, which names the store. Each number is the median of several, in seconds:
`message`, a small question to a node and its answer, over a connection that is open, with TLS;
`store`, a call of the store's functions; `sync`, to write a small file and its name through to the
disk; `bytes`, to write through and hash each byte of a larger one.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from dataward.cluster.access import read_access
from dataward.live.durability import sync_path
from dataward.live.file_digest import file_digest
from dataward.live.peer_client import PeerClient
from dataward.model.ids import NodeId
from dataward.model.operations import Join
from dataward.stores.connection import connect
from dataward.stores.valkey import ValkeyStore

TIMES = 30
FILES = 10
LARGE_BYTES = 8 << 20


async def awaited_seconds(work: Callable[[], Awaitable[object]]) -> float:
    await work()  # connects
    took = []
    for _ in range(TIMES):
        began = perf_counter()
        await work()
        took.append(perf_counter() - began)
    return median(took)


async def asked(access: Path, address: str) -> dict[str, float]:
    known = read_access(access)
    client = PeerClient(lambda node: address, known.credentials)
    await client.open()
    async with connect(known.store) as connection:
        store = ValkeyStore(connection, "latencies")
        found = {
            "message": await awaited_seconds(lambda: client.have(NodeId("it"), ["0" * 64])),
            "store": await awaited_seconds(lambda: store.call([Join(NodeId("it"), 1, 1.0)])),
        }
    await client.close()
    return found


def stored_seconds(path: Path, size_bytes: int) -> float:
    """Seconds to write a file through to the disk, hash it, and give it its name."""
    took = []
    for number in range(FILES):
        draft, final = path / f"draft-{number}", path / f"final-{number}"
        draft.write_bytes(bytes(size_bytes))
        began = perf_counter()
        sync_path(str(draft))
        with open(draft, "rb", buffering=0) as file:
            file_digest(file, size_bytes)
        os.rename(draft, final)
        sync_path(str(path))
        took.append(perf_counter() - began)
        final.unlink()
    return median(took)


def main() -> None:
    access, address, directory = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    found = asyncio.run(asked(access, address))
    found["sync"] = stored_seconds(directory, 1)
    found["bytes"] = max(stored_seconds(directory, LARGE_BYTES) - found["sync"], 0.0) / LARGE_BYTES
    print(json.dumps(found))


if __name__ == "__main__":
    main()
