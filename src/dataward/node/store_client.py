"""The store as a node sees it: every call is repeated until it is answered."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from dataward.model.answers import Answer
from dataward.model.operations import Operation
from dataward.node.settings import NodeSettings
from dataward.world import Kernel, Store, StoreUnavailable

TURNS = 10  # a task needs this many turns of the loop from the store's queue to the runner

A = TypeVar("A")


class StoreClient:
    """Repeats failed calls. Operations are safe to repeat, so it need not know what a call did."""

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
                # A random pause: nodes that were cut off together must not call again together.
                await self._kernel.sleep(pause * (0.5 + self._random.random()))
                pause = min(pause * 2, self._settings.retry_seconds_max)

    async def let_others_run(self) -> None:
        """Let other fibers run: during a call to a store in this process, none gets a turn."""
        for _ in range(TURNS):
            await self._kernel.sleep(0)

    async def ask(self, operation: Operation, kind: type[A]) -> A:
        """The answer to one operation, which can only be of one kind."""
        (answer,) = await self.call([operation])
        assert isinstance(answer, kind)
        return answer
