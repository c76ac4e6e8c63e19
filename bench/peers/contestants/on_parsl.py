"""Parsl's high-throughput executor with two processes on this machine, app futures as arguments."""

from collections.abc import Iterator
from contextlib import contextmanager

import parsl
import workloads
from parsl import Config, HighThroughputExecutor, python_app
from parsl.providers import LocalProvider
from workloads import Peer


@contextmanager
def parsl_of_two() -> Iterator[Peer]:
    executor = HighThroughputExecutor(
        address="127.0.0.1",
        cores_per_worker=0.5,
        max_workers_per_node=2,
        # Without it the manager asks for each task anew.
        prefetch_capacity=100,
        encrypted=False,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),
    )
    with parsl.load(Config(executors=[executor], strategy="none", initialize_logging=False)):
        apps = {function: python_app(function) for function in workloads.FUNCTIONS}
        yield Peer(
            lambda function, *args: apps[function](*args),
            lambda futures: [future.result() for future in futures],
        )


if __name__ == "__main__":
    workloads.main(parsl_of_two)
