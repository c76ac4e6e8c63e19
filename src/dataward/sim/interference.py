"""Faults between machines: decides about each message and store call from one seeded stream."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random


class StoreFate(Enum):
    ANSWERED = "answered"
    LOST = "lost"  # never arrived
    UNANSWERED = "unanswered"  # took effect, but the caller is not told


@dataclass
class Interference:
    """Rates of faults, all zero unless a fault plan raises them, and partitions.

    ``cuts`` are groups: a member of a group cannot reach anything outside the group. Shards are
    called ``store-0`` and so on; the origin is ``origin``.
    """

    random: Random
    message_loss: float = 0.0
    message_duplication: float = 0.0
    message_delay_seconds: float = 0.0  # each message is late by a random part of this
    store_loss: float = 0.0
    store_silence: float = 0.0  # the call takes effect, but its answer is lost
    store_patience_seconds: float = 1.0
    cuts: list[frozenset[str]] = field(default_factory=list)
    lost_messages: int = 0  # so far, also those lost to a cut
    failed_calls: int = 0  # so far: calls to a shard that were lost or not answered

    def reaches(self, source: str, target: str) -> bool:
        return not self.cuts or all((source in cut) == (target in cut) for cut in self.cuts)

    def store_fate(self, caller: str, shard: int) -> StoreFate:
        if self.cuts and not self.reaches(caller, f"store-{shard}"):
            return StoreFate.LOST
        if not (self.store_loss or self.store_silence):
            return StoreFate.ANSWERED
        draw = self.random.random()
        if draw < self.store_loss:
            return StoreFate.LOST
        if draw < self.store_loss + self.store_silence:
            return StoreFate.UNANSWERED
        return StoreFate.ANSWERED

    def delivery_delays(self, source: str, target: str) -> list[float]:
        """The extra delay of each copy of a message that arrives; there are none, one, or two."""
        if self.cuts and not self.reaches(source, target):
            self.lost_messages += 1
            return []
        if not (self.message_loss or self.message_duplication or self.message_delay_seconds):
            return [0.0]
        if self.random.random() < self.message_loss:
            self.lost_messages += 1
            return []
        times = 2 if self.random.random() < self.message_duplication else 1
        return [self.random.random() * self.message_delay_seconds for _ in range(times)]
