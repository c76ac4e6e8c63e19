"""The incremental rates against a textbook solver, and bytes and times against plain arithmetic."""

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from math import inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.sim.fairshare import FairShare, Flow, Link
from dataward.sim.network_flows import FlowNetwork, LinkIndex, Transfer

Route = tuple[int, ...]

# Equal, nearly equal, zero and far apart: ties and rounding are where a solver goes wrong.
CAPACITIES = (0.0, 1.0, 1.0, 2.0, 3.0, 10.0, 0.1, 1e9, 1.25e8, 7e-3)
capacities = st.one_of(
    st.sampled_from(CAPACITIES), st.floats(min_value=1e-3, max_value=1e12, allow_nan=False)
)


def textbook_rates(capacity: Sequence[float], routes: Sequence[Route]) -> list[float]:
    """Progressive filling by the book: find the fullest link, fix its flows, start over."""
    rates = [-1.0] * len(routes)
    while -1.0 in rates:
        free = [i for i, rate in enumerate(rates) if rate < 0]
        levels = {}
        for link in {link for i in free for link in routes[i]}:
            crossing = [i for i in range(len(routes)) if link in routes[i]]
            taken = sum(rates[i] for i in crossing if rates[i] >= 0)
            waiting = sum(1 for i in crossing if rates[i] < 0)
            levels[link] = max(0.0, capacity[link] - taken) / waiting
        fullest = min(levels, key=lambda link: (levels[link], link))
        for i in free:
            if fullest in routes[i]:
                rates[i] = levels[fullest]
    return rates


def check_max_min(capacity: Sequence[float], routes: Sequence[Route], rates: list[float]) -> None:
    """Every link within capacity; every flow with a full link on which nobody is faster."""
    load = [0.0] * len(capacity)
    fastest = [0.0] * len(capacity)
    for route, rate in zip(routes, rates, strict=True):
        for link in route:
            load[link] += rate
            fastest[link] = max(fastest[link], rate)
    for link, full in enumerate(capacity):
        assert load[link] <= full * (1 + 1e-9)
    for route, rate in zip(routes, rates, strict=True):
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9) and rate >= fastest[link] * (1 - 1e-9)
            for link in route
        )


def check_rates(share: FairShare, flows: Sequence[Flow]) -> None:
    share.solve()
    capacity = [link.capacity for link in share.links]
    routes = [tuple(link.index for link in flow.links) for flow in flows]
    rates = [flow.bottleneck.level for flow in flows]
    assert rates == pytest.approx(textbook_rates(capacity, routes), rel=1e-9, abs=0)
    check_max_min(capacity, routes, rates)


# Past how many repairs per flow everything is filled anew: always, often in the middle of repairs,
# as by default, never.
REPAIRS_PER_FLOW = (0.0, 0.05, 1.0, 100.0)


def routes_over(count: int) -> st.SearchStrategy[Route]:
    size = min(count, 5)
    return st.lists(st.integers(0, count - 1), min_size=1, max_size=size, unique=True).map(tuple)


class TestRates:
    @settings(max_examples=200, deadline=None)
    @given(
        st.data(),
        st.lists(capacities, min_size=1, max_size=8),
        st.sampled_from(REPAIRS_PER_FLOW),
    )
    def test_rates_equal_the_textbooks_after_every_change(
        self, data: st.DataObject, capacity: list[float], repairs_per_flow_max: float
    ) -> None:
        share = FairShare(repairs_per_flow_max=repairs_per_flow_max)
        links = [share.add_link(each) for each in capacity]
        flows: list[Flow] = []

        for change in data.draw(st.lists(st.sampled_from("aaarrcs"), min_size=1, max_size=30)):
            if change == "a":
                route = data.draw(routes_over(len(links)))
                flows.append(share.add(tuple(links[i] for i in route)))
            elif change == "r" and flows:
                share.remove(flows.pop(data.draw(st.integers(0, len(flows) - 1))))
            elif change == "c":
                link = links[data.draw(st.integers(0, len(links) - 1))]
                share.set_capacity(link, data.draw(capacities))
            elif change == "s":
                check_rates(share, flows)

        check_rates(share, flows)

    @settings(max_examples=100, deadline=None)
    @given(
        st.data(),
        st.lists(capacities, min_size=2, max_size=8),
        st.sampled_from(REPAIRS_PER_FLOW),
    )
    def test_no_level_and_no_bottleneck_changes_untold(
        self, data: st.DataObject, capacity: list[float], repairs_per_flow_max: float
    ) -> None:
        share = FairShare(repairs_per_flow_max=repairs_per_flow_max)
        links = [share.add_link(each) for each in capacity]
        flows: list[Flow] = []

        for change in data.draw(st.lists(st.sampled_from("aaarc"), min_size=2, max_size=20)):
            levels = {link: link.level for link in links}
            bottlenecks = {flow: flow.bottleneck for flow in flows}
            if change == "a":
                route = data.draw(routes_over(len(links)))
                flows.append(share.add(tuple(links[i] for i in route)))
            elif change == "r" and flows:
                share.remove(flows.pop(data.draw(st.integers(0, len(flows) - 1))))
            elif change == "c":
                share.set_capacity(data.draw(st.sampled_from(links)), data.draw(capacities))
            share.solve()

            assert {link for link in links if link.level != levels[link]} <= set(share.changed)
            assert {f for f in flows if f.bottleneck is not bottlenecks.get(f)} <= set(share.moved)
            assert len(share.changed) == len(set(share.changed))
            forget(share)

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("even", [False, True])
    def test_rates_stay_right_through_long_runs_on_two_sites(self, seed: int, even: bool) -> None:
        rng = random.Random(seed)
        share = FairShare()
        platform = TwoSites(share, nodes=10, rng=rng, even=even)
        flows: list[Flow] = []

        for step in range(1500):
            if len(flows) > 40 or (flows and rng.random() < 0.4):
                share.remove(flows.pop(rng.randrange(len(flows))))
            else:
                flows.append(share.add(platform.random_route(rng)))
            if rng.random() < 0.03:
                link = rng.choice(share.links)
                share.set_capacity(link, rng.choice((0.0, 1e-3, 1e3, 1e12, link.capacity)))
            if rng.random() < 0.05:
                # What a large batch ends in; repairs must be able to go on from there.
                share._fill_all()
            share.solve()
            if step % 5 == 0:
                check_rates(share, flows)

    def test_rounding_beside_a_huge_capacity_does_not_outlive_it(self) -> None:
        share = FairShare()
        shared, thin, wide = share.add_link(1e18), share.add_link(0.3), share.add_link(1e17 / 3)
        small = share.add((shared, thin))
        share.solve()
        huge = share.add((shared, wide))
        share.solve()
        share.remove(huge)
        share.solve()

        share.set_capacity(shared, 1.0)

        check_rates(share, [small, share.add((shared,))])

    def test_rounding_does_not_build_up_over_many_changes(self) -> None:
        share = FairShare()
        shared, wide = share.add_link(1e18), share.add_link(1e17 / 3)
        thin = [share.add_link(0.3) for _ in range(3)]
        flows = [share.add((shared, link)) for link in thin]
        huge = share.add((shared, wide))
        share.solve()
        share.remove(huge)

        for step in range(2_000):
            share.set_capacity(thin[0], 0.3 + 0.1 * (step % 2))
            share.solve()

        loads = sum(flow.bottleneck.level for flow in flows)
        assert shared.used == pytest.approx(loads, rel=1e-12)

    def test_a_change_is_not_felt_by_flows_that_share_nothing_with_it(self) -> None:
        share = FairShare()
        near, far = share.add_link(10), share.add_link(10)
        share.add((near,))
        share.add((far,))
        share.solve()
        forget(share)

        share.add((near,))
        share.solve()

        assert share.changed == [near]

    def test_a_change_stops_where_levels_do_not_move(self) -> None:
        share = FairShare()
        slow, fast, beyond = share.add_link(1), share.add_link(100), share.add_link(5)
        share.add((slow, fast))
        share.add((fast, beyond))
        share.solve()
        forget(share)

        share.add((slow,))
        share.solve()

        # `fast` has room to spare before and after, so what `beyond` does is its own affair.
        assert share.changed == [slow]

    def test_repairs_touch_few_links_of_a_sparse_network(self) -> None:
        rng = random.Random(3)
        share = FairShare()
        links = [share.add_link(rng.uniform(1, 10)) for _ in range(2000)]
        flows = [random_pair(share, links, rng) for _ in range(1000)]
        share.solve()
        forget(share)
        touched = 0

        for _ in range(200):
            share.remove(flows.pop(rng.randrange(len(flows))))
            flows.append(random_pair(share, links, rng))
            share.solve()
            touched += len(share.changed)
            forget(share)

        assert touched / 200 < 20

    def test_single_changes_are_repaired_without_filling_everything(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = random.Random(5)
        share = FairShare()
        links = [share.add_link(rng.choice((1.0, 1.0, 10.0))) for _ in range(60)]
        flows = [random_pair(share, links, rng) for _ in range(300)]
        share.solve()
        monkeypatch.setattr(FairShare, "_fill_all", lambda share: pytest.fail("filled all"))

        for _ in range(300):
            share.remove(flows.pop(rng.randrange(len(flows))))
            flows.append(random_pair(share, links, rng))
            share.solve()

        check_rates(share, flows)


class TwoSites:
    """Nodes on two sites, each with its own up and down link, and a thin link each way between."""

    def __init__(self, share: FairShare, nodes: int, rng: random.Random, *, even: bool) -> None:
        def width() -> float:
            return 100.0 if even else rng.uniform(1, 200)

        self.nodes = nodes
        self.up = [share.add_link(width()) for _ in range(nodes)]
        self.down = [share.add_link(width()) for _ in range(nodes)]
        self.between = [share.add_link(width()) for _ in range(2)]

    def random_route(self, rng: random.Random) -> tuple[Link, ...]:
        source, target = rng.sample(range(self.nodes), 2)
        if source % 2 == target % 2:
            return (self.up[source], self.down[target])
        return (self.up[source], self.between[source % 2], self.down[target])


def random_pair(share: FairShare, links: list[Link], rng: random.Random) -> Flow:
    return share.add(tuple(rng.sample(links, 2)))


def forget(share: FairShare) -> None:
    for link in share.changed:
        link.changed = False
    share.changed.clear()
    share.moved.clear()


def a_network(
    *capacity: float, repairs_per_flow_max: float = 1.0
) -> tuple[FlowNetwork, list[LinkIndex]]:
    network = FlowNetwork(FairShare(repairs_per_flow_max=repairs_per_flow_max))
    return network, [network.add_link(each) for each in capacity]


def test_an_empty_transfer_that_is_cancelled_is_not_reported_as_done() -> None:
    network = FlowNetwork()
    link = network.add_link(100.0)
    kept = network.start(0.0, (link,), 0.0, "kept")
    dropped = network.start(0.0, (link,), 0.0, "dropped")

    assert network.cancel(0.0, dropped) == 0.0

    assert network.advance(0.0) == ["kept"]
    assert kept is not dropped


def run_to_end(network: FlowNetwork) -> list[tuple[float, list[object]]]:
    ends: list[tuple[float, list[object]]] = []
    while (due := network.next_completion()) < inf:
        ends.append((due, network.advance(due)))
        assert ends[-1][1], f"at {due} a transfer was to be done, and none was"
    return ends


class TestTransfers:
    def test_two_flows_share_a_link_and_the_survivor_speeds_up(self) -> None:
        network, [link] = a_network(10.0)

        network.start(0.0, (link,), 50.0, "short")
        network.start(0.0, (link,), 100.0, "long")

        assert run_to_end(network) == [(10.0, ["short"]), (15.0, ["long"])]

    @pytest.mark.parametrize("repairs_per_flow_max", REPAIRS_PER_FLOW)
    def test_ends_are_right_however_often_everything_is_filled_anew(
        self, repairs_per_flow_max: float
    ) -> None:
        network, [wide, thin] = a_network(12.0, 2.0, repairs_per_flow_max=repairs_per_flow_max)

        network.start(0.0, (wide, thin), 20.0, "thin")
        network.start(0.0, (wide,), 100.0, "wide")
        network.start(5.0, (wide,), 10.0, "late")

        # Until 5: 2 and 10 bytes a second. With all three: 2, 5 and 5; then 2 and 10 again.
        assert run_to_end(network) == [
            (7.0, ["late"]),
            (10.0, ["thin"]),
            (pytest.approx(65 / 6), ["wide"]),
        ]

    def test_equal_finish_times_fall_by_order_of_start_across_links(self) -> None:
        network, [a, b, c] = a_network(4.0, 2.0, 1.0)

        network.start(0.0, (c,), 10.0, "first")
        network.start(0.0, (a,), 40.0, "second")
        network.start(0.0, (b,), 20.0, "third")

        assert run_to_end(network) == [(10.0, ["first", "second", "third"])]

    def test_flows_that_finish_together_on_paper_finish_in_one_instant(self) -> None:
        network, links = a_network(*(0.1 * k for k in range(1, 60)))

        for k, link in enumerate(links, start=1):
            network.start(0.0, (link,), 0.7 * k, k)

        assert [tags for _, tags in run_to_end(network)] == [list(range(1, 60))]

    def test_no_bytes_or_no_links_is_done_at_once_but_in_order(self) -> None:
        network, [link] = a_network(1.0)
        network.start(0.0, (link,), 3.0, "plain")

        network.start(3.0, (link,), 0.0, "no bytes")
        network.start(3.0, (), 5.0, "no links")

        assert network.next_completion() == 3.0
        assert network.advance(3.0) == ["plain", "no bytes", "no links"]
        assert network.next_completion() == inf

    def test_no_bytes_are_done_at_once_even_over_a_dead_link(self) -> None:
        network, [link] = a_network(0.0)

        network.start(1.0, (link,), 0.0, "empty")

        assert network.advance(1.0) == ["empty"]

    def test_a_dead_link_stalls_its_flows_and_frees_what_they_held_elsewhere(self) -> None:
        network, [shared, own] = a_network(10.0, 10.0)
        stalled = network.start(0.0, (shared, own), 100.0, "stalled")
        other = network.start(0.0, (shared,), 100.0, "other")

        network.set_capacity(2.0, own, 0.0)

        assert network.rate(stalled) == 0.0
        assert network.rate(other) == 10.0
        assert network.advance(network.next_completion()) == ["other"]
        assert network.next_completion() == inf
        network.set_capacity(20.0, own, 9.0)
        assert run_to_end(network) == [(30.0, ["stalled"])]

    def test_cancel_returns_the_bytes_moved_and_the_tag_never_comes(self) -> None:
        network, [link] = a_network(10.0)
        flow = network.start(0.0, (link,), 100.0, "gone")
        network.start(0.0, (link,), 100.0, "stays")

        moved = network.cancel(4.0, flow)

        assert moved == pytest.approx(20.0)
        assert network.rate(flow) == 0.0
        assert run_to_end(network) == [(12.0, ["stays"])]

    def test_cancelling_what_is_done_says_so_and_changes_nothing(self) -> None:
        network, [link] = a_network(10.0)
        flow = network.start(0.0, (link,), 100.0, "done")

        assert network.cancel(11.0, flow) == 100.0
        assert network.advance(11.0) == ["done"]
        assert network.cancel(12.0, flow) == 100.0

    def test_cancelling_at_the_very_instant_of_the_end_still_cancels(self) -> None:
        network, [link] = a_network(10.0)
        flow = network.start(0.0, (link,), 100.0, "nearly")

        assert network.cancel(10.0, flow) == pytest.approx(100.0)
        assert network.advance(10.0) == []

    def test_leaping_over_completions_gives_the_times_that_stepping_gives(self) -> None:
        leaping, [a] = a_network(10.0)
        stepping, [b] = a_network(10.0)
        for network, link in ((leaping, a), (stepping, b)):
            for size in (10.0, 20.0, 30.0, 200.0):
                network.start(0.0, (link,), size, size)
        stepped = [stepping.advance(stepping.next_completion()) for _ in range(3)]

        leaping.start(9.5, (a,), 1.0, "late")
        stepping.start(9.5, (b,), 1.0, "late")

        assert leaping.advance(9.5) == list(itertools.chain.from_iterable(stepped))
        assert run_to_end(leaping) == run_to_end(stepping)

    def test_a_rate_limit_holds_one_flow_and_leaves_the_rest_to_others(self) -> None:
        network, [link] = a_network(10.0)

        slow = network.start(0.0, (link,), 20.0, "slow", rate_max=2.0)
        free = network.start(0.0, (link,), 40.0, "free")

        assert network.rate(slow) == pytest.approx(2.0)
        assert network.rate(free) == pytest.approx(8.0)

    def test_a_rate_limit_ends_with_its_flow(self) -> None:
        network, [link] = a_network(10.0)
        network.start(0.0, (link,), 20.0, "slow", rate_max=2.0)
        network.advance(10.0)

        faster = network.start(10.0, (link,), 20.0, "faster", rate_max=5.0)
        unlimited = network.start(10.0, (link,), 20.0, "unlimited")

        assert network.rate(faster) == pytest.approx(5.0)
        assert network.rate(unlimited) == pytest.approx(5.0)

    def test_a_small_flow_is_timed_right_after_long_service_to_a_huge_one(self) -> None:
        network, [link] = a_network(1e10)
        network.start(0.0, (link,), 1e17, "huge")
        network.set_capacity(1e6, link, 2.0)

        network.start(1e6, (link,), 1e-3, "small")

        assert network.next_completion() - 1e6 == pytest.approx(1e-3, rel=1e-6)
        assert network.advance(1e6 + 1) == ["small"]
        network.set_capacity(1e6 + 1, link, 1e10)
        assert run_to_end(network) == [(pytest.approx(1e7 + 1, rel=1e-12), ["huge"])]

    def test_ends_are_kept_while_another_link_speeds_up_many_times(self) -> None:
        network, [steady, rising] = a_network(1.0, 1.0)
        network.start(0.0, (steady,), 1000.0, "steady")
        network.start(0.0, (rising,), 1e9, "rising")

        for step in range(1, 500):
            network.set_capacity(float(step), rising, 1.0 + step)
            network.next_completion()

        assert network.next_completion() == 1000.0

    def test_every_flow_ends_though_sizes_and_rates_leave_residues(self) -> None:
        network, links = a_network(0.1, 0.3, 0.7, 1e9)
        rng = random.Random(1)
        for k in range(300):
            route = tuple(rng.sample(links, rng.randint(1, 4)))
            network.start(0.0, route, rng.choice((1e-9, 0.1, 1 / 3, 1e6)), k)

        ends = run_to_end(network)

        assert sorted(tag for _, tags in ends for tag in tags) == list(range(300))
        assert [due for due, _ in ends] == sorted(due for due, _ in ends)

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 2**32), st.booleans(), st.sampled_from(REPAIRS_PER_FLOW))
    def test_ends_and_bytes_equal_a_plain_fluid_model(
        self, seed: int, even: bool, repairs_per_flow_max: float
    ) -> None:
        rng = random.Random(seed)
        capacity = [5.0 if even else rng.uniform(1, 10) for _ in range(6)]
        network, links = a_network(*capacity, repairs_per_flow_max=repairs_per_flow_max)
        plain = PlainFluid(capacity)
        running: dict[object, Transfer] = {}
        now = 0.0

        for tag in range(40):
            now += rng.choice((0.0, 0.5, rng.uniform(0, 3)))
            now, ended = compare_up_to(now, network, plain)
            for done in ended:
                del running[done]
            choice = rng.random()
            if choice < 0.15 and running:
                victim = rng.choice(list(running))
                moved = network.cancel(now, running.pop(victim))
                assert moved == pytest.approx(plain.cancel(victim), rel=1e-9, abs=1e-9)
            elif choice < 0.3:
                link = rng.randrange(6)
                plain.capacity[link] = rng.choice((1.0, 5.0, rng.uniform(0.1, 10)))
                network.set_capacity(now, links[link], plain.capacity[link])
            else:
                route = tuple(rng.sample(range(6), rng.randint(1, 4)))
                size = rng.choice((1.0, 10.0, rng.uniform(0.01, 30)))
                plain.flows[tag] = (route, size, size)
                running[tag] = network.start(now, tuple(links[i] for i in route), size, tag)

        compare_up_to(1e6, network, plain)
        assert not plain.flows
        assert network.next_completion() == inf

    def test_a_run_is_the_same_in_processes_with_different_hash_seeds(self) -> None:
        runs = [
            subprocess.run(
                [sys.executable, "-c", REPLAYED_RUN],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        ]

        assert runs[0].count("\n") > 300
        assert runs[0] == runs[1]


REPLAYED_RUN = """
import random
from dataward.sim.network_flows import FlowNetwork

rng = random.Random(1)
network = FlowNetwork()
links = [network.add_link(rng.choice((1.0, 2.0, 10.0))) for _ in range(20)]
ballast = [object() for _ in range(hash("addresses differ too") % 5000)]
started = 0
now = 0.0
while started < 600:
    for _ in range(rng.randrange(3)):
        route = tuple(rng.sample(links, rng.randint(1, 4)))
        network.start(now, route, rng.choice((1.0, 5.0, rng.random())), f"flow-{started}")
        started += 1
    now = min(now + rng.random(), network.next_completion())
    for tag in network.advance(now):
        print(now.hex(), tag)
"""


class PlainFluid:
    """The same network with nothing clever: every rate and every byte count at every step."""

    def __init__(self, capacity: list[float]) -> None:
        self.capacity = capacity
        self.now = 0.0
        self.flows: dict[object, tuple[Route, float, float]] = {}

    def next_ends(self) -> tuple[float, list[object]]:
        """The next instant at which flows end, taking within 1e-9 to be together."""
        times = {tag: left / rate for (tag, (_, _, left)), rate in self._rated()}
        first = min(times.values(), default=inf)
        return self.now + first, [tag for tag, time in times.items() if time <= first + 1e-9]

    def move_to(self, now: float) -> None:
        for (tag, (route, size, left)), rate in list(self._rated()):
            self.flows[tag] = (route, size, left - rate * (now - self.now))
        self.now = now

    def cancel(self, tag: object) -> float:
        _, size, left = self.flows.pop(tag)
        return size - left

    def _rated(self) -> Iterable[tuple[tuple[object, tuple[Route, float, float]], float]]:
        rates = textbook_rates(self.capacity, [route for route, _, _ in self.flows.values()])
        return zip(self.flows.items(), rates, strict=True)


def compare_up_to(
    now: float, network: FlowNetwork, plain: PlainFluid
) -> tuple[float, list[object]]:
    """Run both to `now`, holding every end of one against the other; what ended by then.

    An end that falls on `now` may, by rounding, come just after it in either: time then goes on to
    there, and the time reached is returned.
    """
    ended: list[object] = []
    while plain.next_ends()[0] <= now + 1e-9:
        due, together = plain.next_ends()
        assert isclose(network.next_completion(), due, rel_tol=1e-9, abs_tol=1e-9)
        got: list[object] = []
        while len(got) < len(together):
            due = max(due, network.next_completion())
            done = network.advance(due)
            assert done, f"at {due} a transfer was to be done, and none was"
            got += done
        assert sorted(got, key=str) == sorted(together, key=str)
        plain.move_to(due)
        for tag in together:
            del plain.flows[tag]
        ended += got
        now = max(now, due)
    plain.move_to(now)
    assert network.advance(now) == []
    return now, ended
