"""How fast bytes go from one node to another, and from the origin to a node."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataward.model.platform import Platform

BytesPerSecond = NDArray[np.float64]


def origin_lanes(platform: Platform) -> int:
    """How many files the origin sends at once, each as fast as the fastest node receives."""
    fastest = max(machine.down_bytes_per_second for machine in platform.machines)
    return min(max(int(platform.origin_bytes_per_second / fastest), 1), len(platform.machines))


class Rates:
    """Bytes per second between all nodes of a platform, if nothing else were under way.

    A transfer is as fast as the sender's uplink, the receiver's downlink and, between sites, the
    sites' links allow. Disks and latencies are left out.
    """

    def __init__(self, platform: Platform) -> None:
        machines = platform.machines
        self.up: Sequence[float] = [machine.up_bytes_per_second for machine in machines]
        self.down: BytesPerSecond = np.array(
            [machine.down_bytes_per_second for machine in machines]
        )
        self._between = platform.site_bytes_per_second
        self._origin_site = platform.origin_site
        self._sites = [machine.site for machine in machines]
        self._same_site = {
            site: np.array([machine.site == site for machine in machines])
            for site in {*self._sites, platform.origin_site}
        }
        self._known: dict[tuple[float, str], BytesPerSecond] = {}
        self.from_origin = self._rates(platform.origin_bytes_per_second, platform.origin_site)

    def from_node(self, node: int) -> BytesPerSecond:
        """The rate from this node to each other node; its own entry means nothing."""
        kind = self.up[node], self._sites[node]
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._rates(*kind)
        return found

    def _rates(self, up: float, site: str) -> BytesPerSecond:
        rates = np.minimum(up, self.down)
        if self._between < np.inf:
            rates = np.where(self._same_site[site], rates, np.minimum(rates, self._between))
        return rates

    def site_numbers(self, lanes: int) -> NDArray[np.intp] | None:
        """A number for the site of each node, and of each lane of the origin's link.

        None if links between sites slow nothing down.
        """
        if self._between == np.inf:
            return None
        _, numbers = np.unique([*self._sites, *[self._origin_site] * lanes], return_inverse=True)
        return numbers

    def mean(self) -> float:
        """The mean rate over all pairs of different nodes; infinity if there is only one node.

        Nodes with equal links are counted together: O(nodes * kinds of node).
        """
        count = len(self.up)
        if count == 1:
            return float("inf")
        total = 0.0
        senders: dict[tuple[float, str], list[int]] = {}
        for node, kind in enumerate(zip(self.up, self._sites, strict=True)):
            senders.setdefault(kind, []).append(node)
        for nodes in senders.values():
            rates = self.from_node(nodes[0])
            total += len(nodes) * float(rates.sum()) - float(rates[nodes].sum())
        return total / (count * (count - 1))
