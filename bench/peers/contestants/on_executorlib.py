"""executorlib on one machine: two processes that stay (block allocation), futures as arguments."""

from collections.abc import Iterator
from contextlib import contextmanager

import workloads
from executorlib import SingleNodeExecutor
from workloads import Peer


@contextmanager
def executorlib_of_two() -> Iterator[Peer]:
    with SingleNodeExecutor(max_workers=2, block_allocation=True) as executor:
        yield Peer(executor.submit, lambda futures: [future.result() for future in futures])


if __name__ == "__main__":
    workloads.main(executorlib_of_two)
