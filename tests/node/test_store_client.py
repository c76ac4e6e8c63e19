"""The store as a node sees it: a call that fails is repeated, after longer and longer pauses."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from dataward.kernel import VirtualKernel
from dataward.model.answers import Answer
from dataward.model.operations import Look, Operation
from dataward.model.seeds import seeded
from dataward.model.workflow import TaskId
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import StoreUnavailable

SETTINGS = NodeSettings(retry_seconds=1.0, retry_seconds_max=4.0)


class FailingStore:
    """Does not answer so many times; notes when it was asked."""

    shard_count = 1

    def __init__(self, kernel: VirtualKernel, failures: int) -> None:
        self.asked_at: list[float] = []
        self._kernel = kernel
        self._failures = failures

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        self.asked_at.append(self._kernel.now())
        if len(self.asked_at) <= self._failures:
            raise StoreUnavailable("not now")
        return []


def pauses(failures: int, seed: int = 1) -> list[float]:
    """How long a client waits between one call and the next."""
    kernel = VirtualKernel()
    store = FailingStore(kernel, failures)
    client = StoreClient(store, kernel, seeded(seed), SETTINGS)

    async def main() -> None:
        await client.call([Look(TaskId("t"))])

    kernel.run(main())
    times = store.asked_at
    return [after - before for before, after in pairwise(times)]


def test_a_call_that_is_answered_is_made_once() -> None:
    assert pauses(0) == []


def test_pauses_double_up_to_the_longest() -> None:
    found = pauses(5)

    for pause, expected in zip(found, [1.0, 2.0, 4.0, 4.0, 4.0], strict=True):
        assert 0.5 * expected <= pause <= 1.5 * expected


def test_nodes_that_were_cut_off_together_do_not_come_back_together() -> None:
    assert pauses(1, seed=1) != pauses(1, seed=2)


def test_nothing_is_asked_of_the_store_if_there_is_nothing_to_ask() -> None:
    kernel = VirtualKernel()
    store = FailingStore(kernel, 0)

    async def main() -> list[Answer]:
        return await StoreClient(store, kernel, seeded(1), SETTINGS).call([])

    assert kernel.run(main()) == []
    assert store.asked_at == []


def test_an_answer_of_another_kind_is_not_taken() -> None:
    kernel = VirtualKernel()

    class Odd(FailingStore):
        async def call(self, operations: Sequence[Operation]) -> list[Answer]:
            return ["odd"]  # type: ignore[list-item]

    async def main() -> None:
        await StoreClient(Odd(kernel, 0), kernel, seeded(1), SETTINGS).ask(Look(TaskId("t")), int)

    with pytest.raises(AssertionError):
        kernel.run(main())
