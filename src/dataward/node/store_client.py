"""The store as a node sees it: every call is repeated until it is answered."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from dataward.model.answers import Answer
from dataward.model.operations import Operation
from dataward.node.settings import NodeSettings
from dataward.world import Kernel, Store, StoreUnavailable

TURNS = 10  # in fewer no task gets from the store's queue to the runner

A = TypeVar("A")


class StoreClient:
    """Patience. Operations are safe to repeat, so a node need not know what a failed call did."""

    def __init__(
        self, store: Store, kernel: Kernel, random: Random, settings: NodeSettings
    ) -> None:
        self._store = store
        self._kernel = kernel
        self._random = random
        self._settings = settings

    @property
    def shard_count(self) -> int:
        return self._store.shard_count

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        if not operations:
            return []
        pause = self._settings.retry_seconds
        while True:
            try:
                return await self._store.call(operations)
            except StoreUnavailable:
                # Nodes cut off together must not come back together.
                await self._kernel.sleep(pause * (0.5 + self._random.random()))
                pause = min(pause * 2, self._settings.retry_seconds_max)

    async def let_others_run(self) -> None:
        """Calls to a store in this very process take no time, in which nobody else has a turn."""
        for _ in range(TURNS):
            await self._kernel.sleep(0)

    async def ask(self, operation: Operation, kind: type[A]) -> A:
        """One operation whose answer can only be of one kind."""
        (answer,) = await self.call([operation])
        assert isinstance(answer, kind)
        return answer
