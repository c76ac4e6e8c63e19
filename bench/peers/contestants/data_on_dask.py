"""Dask distributed: a process of one thread for each node; worker saturation is without limit.

With `tls` as third argument, all that goes over the network is encrypted, as ours is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dask
import data_work
from data_work import MB, DataPeer, DataWork
from distributed import Client, LocalCluster, Security

# A worker's limit is for its whole process, which is so large without any object.
PROCESS_BYTES = 150 * MB


@contextmanager
def dask_of(work: DataWork) -> Iterator[DataPeer]:
    dask.config.set({"distributed.scheduler.worker-saturation": float("inf")})
    limit = work.room_bytes + PROCESS_BYTES if work.room_bytes else 0
    security = Security.temporary() if sys.argv[3:] == ["tls"] else None
    with (
        LocalCluster(
            n_workers=work.nodes,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=limit,
            security=security,
        ) as cluster,
        Client(cluster, security=security) as client,
    ):

        def moved_bytes() -> float:
            sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
            return float(sum(sent.values()))

        yield DataPeer(
            lambda f, *args: client.submit(f, *args, pure=False), client.gather, moved_bytes
        )


if __name__ == "__main__":
    data_work.main(dask_of)
