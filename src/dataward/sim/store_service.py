"""The simulated store: shards that take time to answer, and may fail to answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dataward.kernel.virtual import VirtualKernel
from dataward.model.answers import Answer
from dataward.model.operations import Operation, shard_of
from dataward.model.platform import StoreModel
from dataward.sim.interference import Interference, StoreFate
from dataward.stores.shard import Shard
from dataward.world import StoreUnavailable

OnApplied = Callable[[Operation, Answer, Shard], None]


def _nothing(shard: int) -> None:
    """What happens after a call, unless somebody counts calls."""


@dataclass
class StoreService:
    """Shards that each serve one operation after another, so that a hot shard shows."""

    kernel: VirtualKernel
    model: StoreModel
    interference: Interference
    on_applied: OnApplied
    make_shard: Callable[[int], Shard] = Shard
    after_call: Callable[[int], None] = _nothing  # when a shard has applied its part of a call
    calls: int = 0
    busy_until: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shards = [self.make_shard(index) for index in range(self.model.shards)]
        self.busy_until = [0.0] * self.model.shards

    async def call(self, caller: str, operations: Sequence[Operation]) -> list[Answer]:
        """The answers for a node. Operations that were sent are applied even if the caller dies."""
        self.calls += 1
        answers: list[Answer | None] = [None] * len(operations)
        by_shard: dict[int, list[int]] = {}
        for place, operation in enumerate(operations):
            by_shard.setdefault(shard_of(operation, self.model.shards), []).append(place)
        answered_at = self.kernel.now()
        failed = False
        for shard, places in by_shard.items():
            fate = self.interference.store_fate(caller, shard)
            failed = failed or fate is not StoreFate.ANSWERED
            if fate is StoreFate.LOST:
                continue
            done = self._serve(shard, len(places))
            answered_at = max(answered_at, done)
            self.kernel.call_at(done, self._apply, shard, places, operations, answers)
        if failed:
            answered_at = self.kernel.now() + self.interference.store_patience_seconds
        await self.kernel.sleep(answered_at + self.model.latency_seconds - self.kernel.now())
        if failed:
            raise StoreUnavailable("a shard did not answer")
        return answers  # type: ignore[return-value]

    def _serve(self, shard: int, count: int) -> float:
        """The time at which a shard will be done with this many more operations."""
        arrival = self.kernel.now() + self.model.latency_seconds
        start = max(arrival, self.busy_until[shard])
        done = start + count * self.model.service_seconds
        self.busy_until[shard] = done
        return done

    def _apply(
        self,
        shard: int,
        places: list[int],
        operations: Sequence[Operation],
        answers: list[Answer | None],
    ) -> None:
        now, target = self.kernel.now(), self.shards[shard]
        for place in places:
            operation = operations[place]
            answer = answers[place] = target.apply(operation, now)
            self.on_applied(operation, answer, target)
        self.after_call(shard)

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

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        return await self.service.call(self.node, operations)
