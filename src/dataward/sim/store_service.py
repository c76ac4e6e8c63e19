"""The simulated store: shards that take time to answer, and may fail to answer."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataward.kernel.virtual import VirtualKernel
from dataward.model.answers import Answer
from dataward.model.operations import Operation, shard_of
from dataward.model.platform import StoreModel
from dataward.sim.interference import Interference, StoreFate
from dataward.stores.shard import Shard
from dataward.world import StoreUnavailable

OnApplied = Callable[[Operation, Answer, Shard], None]
AfterCall = Callable[[int], None]


@dataclass
class StoreService:
    """Shards that each serve one operation after another, so that a hot shard shows.

    ``on_applied`` are told of each operation, ``after_call`` of each shard that has applied its
    part of a call.
    """

    kernel: VirtualKernel
    model: StoreModel
    interference: Interference
    make_shard: Callable[[int], Shard] = Shard
    on_applied: list[OnApplied] = field(default_factory=list)
    after_call: list[AfterCall] = field(default_factory=list)
    calls: int = 0
    busy_until: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shards = [self.make_shard(index) for index in range(self.model.shards)]
        self.busy_until = [0.0] * self.model.shards

    async def call(self, caller: str, operations: Sequence[Operation]) -> list[Answer]:
        """The answers for a node. Operations that were sent are applied even if the caller dies."""
        self.calls += 1
        kernel, model = self.kernel, self.model
        now, latency_seconds = kernel.time, model.latency_seconds
        answers: list[Answer | None] = [None] * len(operations)
        answered_at = now
        failed = False
        for shard, places in self._by_shard(operations).items():
            fate = self.interference.store_fate(caller, shard)
            if fate is not StoreFate.ANSWERED:
                failed = True
                self.interference.failed_calls += 1
                if fate is StoreFate.LOST:
                    continue
            arrival, busy_until = now + latency_seconds, self.busy_until[shard]
            start = arrival if arrival > busy_until else busy_until
            done = self.busy_until[shard] = start + len(places) * model.service_seconds
            if done > answered_at:
                answered_at = done
            kernel.call_at(done, self._apply, shard, places, operations, answers)
        if failed:
            answered_at = now + self.interference.store_patience_seconds
        await kernel.sleep(answered_at + latency_seconds - now)
        if failed:
            raise StoreUnavailable("a shard did not answer")
        return answers  # type: ignore[return-value]

    def _by_shard(self, operations: Sequence[Operation]) -> dict[int, list[int]]:
        """The places of the operations that go to each shard."""
        shards = self.model.shards
        if len(operations) == 1:  # as most often
            return {shard_of(operations[0], shards): [0]}
        by_shard: dict[int, list[int]] = {}
        for place, operation in enumerate(operations):
            by_shard.setdefault(shard_of(operation, shards), []).append(place)
        return by_shard

    def _apply(
        self,
        shard: int,
        places: list[int],
        operations: Sequence[Operation],
        answers: list[Answer | None],
    ) -> None:
        now, target, observers = self.kernel.time, self.shards[shard], self.on_applied
        for place in places:
            operation = operations[place]
            answer = answers[place] = target.apply(operation, now)
            for observer in observers:
                observer(operation, answer, target)
        for listener in self.after_call:
            listener(shard)

    @property
    def complete(self) -> int:
        return sum(shard.complete for shard in self.shards)

    @property
    def failed(self) -> int:
        return sum(shard.failed for shard in self.shards)

    @property
    def removed(self) -> int:
        return sum(shard.removed for shard in self.shards)

    @property
    def ended(self) -> int:
        """How many tasks have ended, in any way."""
        return sum(shard.ended for shard in self.shards)


@dataclass
class StoreOf:
    """The store as one node reaches it."""

    service: StoreService
    node: str

    @property
    def shard_count(self) -> int:
        return self.service.model.shards

    def call(self, operations: Sequence[Operation]) -> Coroutine[Any, Any, list[Answer]]:
        return self.service.call(self.node, operations)
