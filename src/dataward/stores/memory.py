"""The store in this process's memory: shards called directly."""

from collections.abc import Callable, Sequence

from dataward.model.answers import Answer
from dataward.model.operations import Operation, shard_of
from dataward.stores.shard import Shard


class MemoryStore:
    """Keeps everything in plain structures; forgets it with the process."""

    def __init__(
        self,
        clock: Callable[[], float],
        shards: int = 1,
        make_shard: Callable[[int], Shard] = Shard,
    ) -> None:
        self._clock = clock
        self._shards = [make_shard(index) for index in range(shards)]

    @property
    def shard_count(self) -> int:
        return len(self._shards)

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        now = self._clock()
        count = len(self._shards)
        return [self._shards[shard_of(op, count)].apply(op, now) for op in operations]
