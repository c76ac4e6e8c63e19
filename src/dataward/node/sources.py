"""Which of several sources a file is fetched from, by what is known of how fast they are.

A link is known beforehand where somebody has described it, as a simulated platform does. Besides, a
node remembers how fast large files came: a link may be shared, or worse than described.
"""

from collections.abc import Sequence

from dataward.model.ids import NodeId
from dataward.world import Network

AS_GOOD = 1.5  # sources that are slower than the quickest by less than this are all as good


class SourceRates:
    """Bytes per second that this node may expect from others."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._seen: dict[NodeId, float] = {}

    def saw(self, source: NodeId, size_bytes: int, seconds: float) -> None:
        """Remember how long a file took; only files for which latency does not matter."""
        if seconds > 0:
            self._seen[source] = size_bytes / seconds

    def expected(self, source: NodeId) -> float | None:
        """As it was the last time, else as the link was described; None if nothing is known."""
        seen = self._seen.get(source)
        return self._network.expected_rate(source) if seen is None else seen

    def is_much_slower(self, source: NodeId, other: NodeId) -> bool:
        """Whether a source is known not to be as good as another."""
        rate, of_other = self.expected(source), self.expected(other)
        return rate is not None and of_other is not None and rate * AS_GOOD < of_other

    def quickest_first(self, sources: Sequence[NodeId]) -> list[NodeId]:
        """The same sources, those that are much slower than the quickest at the end.

        The others keep their order: many nodes may want the same file at once, and if all of them
        went to the quickest, each would have a small part of its link. A source of which nothing is
        known is taken to be as good as the quickest.
        """
        rates = [self.expected(source) for source in sources]
        least = max([rate for rate in rates if rate is not None], default=0.0) / AS_GOOD
        slow = [
            (-rate, place) for place, rate in enumerate(rates) if rate is not None and rate < least
        ]
        if not slow:
            return list(sources)
        last = {place for _, place in slow}
        good = [source for place, source in enumerate(sources) if place not in last]
        return good + [sources[place] for _, place in sorted(slow)]
