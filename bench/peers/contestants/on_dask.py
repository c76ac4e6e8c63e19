"""Dask distributed: two processes of one thread; a third argument sets the worker saturation."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dask
import workloads
from distributed import Client, LocalCluster
from workloads import Peer


@contextmanager
def dask_of_two() -> Iterator[Peer]:
    if len(sys.argv) > 3:
        dask.config.set({"distributed.scheduler.worker-saturation": float(sys.argv[3])})
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        # An impure call needs no key made from its arguments, and is never another one's twin.
        yield Peer(lambda f, *args: client.submit(f, *args, pure=False), client.gather)


if __name__ == "__main__":
    workloads.main(dask_of_two)
