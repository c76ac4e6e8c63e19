"""What one event costs in the flow-level network, ours against recomputing everything.

    python -m bench.network [--repeats 3]

Flows are held steady: each one that finishes is replaced by another between random nodes. An event
is one finish and one start at the same instant, with rates and the next completion brought up to
date. The naive network fills all links anew and looks at every flow, at every event.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

from dataward.sim.network_flows import FlowNetwork, LinkIndex

Route = tuple[LinkIndex, ...]


class Network(Protocol):
    """What the driver needs of either network."""

    def add_link(self, capacity_bytes_per_second: float) -> LinkIndex: ...
    def start(self, now: float, links: Route, size_bytes: float, tag: object) -> object: ...
    def next_completion(self) -> float: ...
    def advance(self, now: float) -> list[object]: ...


class NaiveNetwork:
    """Everything anew at every event; progressive filling with a heap, so not a straw man."""

    def __init__(self) -> None:
        self._capacity: list[float] = []
        self._flows: list[tuple[Route, float, object]] = []
        self._rates: list[float] = []
        self._now = 0.0

    def add_link(self, capacity_bytes_per_second: float) -> LinkIndex:
        self._capacity.append(capacity_bytes_per_second)
        return LinkIndex(len(self._capacity) - 1)

    def start(self, now: float, links: Route, size_bytes: float, tag: object) -> None:
        assert now == self._now
        self._flows.append((links, size_bytes, tag))

    def next_completion(self) -> float:
        self._rates = self._fill()
        left = (flow[1] / rate for flow, rate in zip(self._flows, self._rates, strict=True))
        return self._now + min(left, default=inf)

    def advance(self, now: float) -> list[object]:
        passed = now - self._now
        self._now = now
        rated = zip(self._flows, self._rates, strict=True)
        moved = [(links, size - rate * passed, tag) for (links, size, tag), rate in rated]
        # A millionth of a byte left over is rounding, at the sizes used here.
        self._flows = [flow for flow in moved if flow[1] > 1e-6]
        return [tag for _, left, tag in moved if left <= 1e-6]

    def _fill(self) -> list[float]:
        crossing: list[list[int]] = [[] for _ in self._capacity]
        for index, (links, _, _) in enumerate(self._flows):
            for link in links:
                crossing[link].append(index)
        room = list(self._capacity)
        waiting = [len(each) for each in crossing]
        rates = [-1.0] * len(self._flows)
        queue = [(room[k] / count, k) for k, count in enumerate(waiting) if count]
        heapify(queue)
        while queue:
            level, index = heappop(queue)
            link = LinkIndex(index)
            if not waiting[link]:
                continue
            if room[link] / waiting[link] > level:
                heappush(queue, (room[link] / waiting[link], link))
                continue
            for flow in crossing[link]:
                if rates[flow] < 0:
                    rates[flow] = level
                    for other in self._flows[flow][0]:
                        room[other] -= level
                        waiting[other] -= 1
        return rates


@dataclass(frozen=True, slots=True)
class Case:
    """A platform, its steady number of flows, and how many events to time for either network."""

    nodes: int
    flows: int
    sites: int
    events: int
    events_naive: int


CASES = (
    Case(nodes=100, flows=1_000, sites=1, events=4_000, events_naive=60),
    Case(nodes=1_000, flows=3_000, sites=1, events=4_000, events_naive=20),
    Case(nodes=1_000, flows=10_000, sites=1, events=2_000, events_naive=10),
    Case(nodes=1_000, flows=10_000, sites=4, events=2_000, events_naive=10),
    Case(nodes=16_384, flows=16_384, sites=1, events=8_000, events_naive=4),
)


def platform(case: Case, network: Network, rng: random.Random) -> Callable[[], Route]:
    """Links of 1 or 10 Gbit/s at the nodes, 100 Gbit/s each way between sites; random routes."""
    up = [network.add_link(rng.choice((1.25e8, 1.25e9))) for _ in range(case.nodes)]
    down = [network.add_link(rng.choice((1.25e8, 1.25e9))) for _ in range(case.nodes)]
    sites = range(case.sites)
    between = {(a, b): network.add_link(1.25e10) for a in sites for b in sites if a != b}

    def a_route() -> Route:
        source = rng.randrange(case.nodes)
        target = (source + rng.randrange(1, case.nodes)) % case.nodes
        backbone = between.get((source % case.sites, target % case.sites))
        middle = () if backbone is None else (backbone,)
        return (up[source], *middle, down[target])

    return a_route


def seconds_per_event(case: Case, network: Network, events: int, seed: int) -> float:
    rng = random.Random(seed)
    a_route = platform(case, network, rng)
    for _ in range(case.flows):
        network.start(0.0, a_route(), rng.uniform(1e6, 1e9), None)
    due = network.next_completion()
    done = 0
    began = time.perf_counter()
    while done < events:
        for _ in network.advance(due):
            network.start(due, a_route(), rng.uniform(1e6, 1e9), None)
            done += 1
        due = network.next_completion()
    return (time.perf_counter() - began) / done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs is shown")
    repeats = range(parser.parse_args().repeats)
    print(f"{'nodes':>7} {'flows':>7} {'sites':>5} {'ours':>9} {'naive':>9} {'ratio':>7}  us/event")
    for case in CASES:
        ours = min(seconds_per_event(case, FlowNetwork(), case.events, s) for s in repeats)
        naive = min(seconds_per_event(case, NaiveNetwork(), case.events_naive, s) for s in repeats)
        print(
            f"{case.nodes:>7} {case.flows:>7} {case.sites:>5}"
            f" {ours * 1e6:>9.0f} {naive * 1e6:>9.0f} {naive / ours:>7.0f}"
        )


if __name__ == "__main__":
    main()
