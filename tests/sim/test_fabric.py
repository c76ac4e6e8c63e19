"""Bytes on wires: which links they cross, what they share, and what a cut does to them."""

import pytest

from dataward.kernel import VirtualKernel
from dataward.model.platform import Machine, Platform
from dataward.sim.fabric import Fabric
from dataward.world import TransferFailed
from sim.small_runs import MB, machines


class Wires:
    """Moves files between machines of 100 MB/s links, noting when each arrives."""

    def __init__(self, platform: Platform) -> None:
        self.kernel = VirtualKernel()
        self.fabric = Fabric(self.kernel, platform)
        self.arrived: dict[str, float] = {}
        self.failed: dict[str, float] = {}

    async def move(self, name: str, source: str, target: str, size_bytes: int) -> None:
        route = self.fabric.route(source, target)
        try:
            await self.fabric.move(route, size_bytes, (source, target))
            self.arrived[name] = self.kernel.now()
        except TransferFailed:
            self.failed[name] = self.kernel.now()

    def run(self, *moves: tuple[str, str, str, int]) -> dict[str, float]:
        async def main() -> None:
            for fiber in [self.kernel.spawn(self.move(*move), move[0]) for move in moves]:
                await fiber.join()

        self.kernel.run(main())
        return self.arrived


def equal_links(count: int = 3) -> Wires:
    links = {"up_bytes_per_second": 100e6, "down_bytes_per_second": 100e6}
    return Wires(Platform(machines(count, **links)))


def test_a_file_takes_its_size_over_the_slowest_link() -> None:
    assert equal_links().run(("f", "n0", "n1", 200 * MB)) == {"f": pytest.approx(2.0)}


def test_nothing_takes_no_time() -> None:
    assert equal_links().run(("f", "n0", "n1", 0)) == {"f": 0.0}


def test_two_files_from_one_source_share_its_link() -> None:
    arrived = equal_links().run(("a", "n0", "n1", 100 * MB), ("b", "n0", "n2", 100 * MB))

    assert arrived == {"a": pytest.approx(2.0), "b": pytest.approx(2.0)}


def test_both_ways_at_once_do_not_disturb_each_other() -> None:
    arrived = equal_links().run(("a", "n0", "n1", 100 * MB), ("b", "n1", "n0", 100 * MB))

    assert arrived == {"a": pytest.approx(1.0), "b": pytest.approx(1.0)}


def test_a_slow_disk_is_a_link_too() -> None:
    slow, fast = Machine("slow", disk_bytes_per_second=10e6), Machine("fast")

    assert Wires(Platform((slow, fast))).run(("f", "slow", "fast", 100 * MB)) == {
        "f": pytest.approx(10.0)
    }


def test_a_move_that_is_given_up_frees_the_link() -> None:
    wires = equal_links()

    async def main() -> None:
        long = wires.kernel.spawn(wires.move("long", "n0", "n1", 1000 * MB))
        short = wires.kernel.spawn(wires.move("short", "n0", "n2", 100 * MB))
        await wires.kernel.sleep(1.0)
        long.cancel()
        await short.join()

    wires.kernel.run(main())

    # Half of it in the first second, shared; the other half in the next half second, alone.
    assert wires.arrived == {"short": pytest.approx(1.5)}


def test_a_crash_fails_what_comes_and_goes_and_nothing_else() -> None:
    wires = equal_links(4)
    wires.kernel.call_at(0.5, wires.fabric.cut, "n1")

    wires.run(
        ("from it", "n1", "n0", 100 * MB),
        ("to it", "n0", "n1", 100 * MB),
        ("past it", "n2", "n3", 100 * MB),
    )

    assert wires.failed == {"from it": 0.5, "to it": 0.5}
    assert wires.arrived == {"past it": pytest.approx(1.0)}


def test_a_partition_fails_only_what_crosses_it() -> None:
    wires = equal_links(4)
    island = {"n0", "n1"}
    for node in sorted(island):
        wires.kernel.call_at(0.5, wires.fabric.cut, node, lambda other: other not in island)

    wires.run(("inside", "n0", "n1", 100 * MB), ("across", "n2", "n0", 100 * MB))

    assert set(wires.arrived) == {"inside"}
    assert set(wires.failed) == {"across"}


def test_a_slower_machine_has_slower_links() -> None:
    wires = equal_links()
    (slow, *_) = wires.fabric.platform.machines
    wires.kernel.call_at(1.0, wires.fabric.slow_down, slow, 0.5)

    # 100 MB in the first second, the other 100 MB at half speed.
    assert wires.run(("f", "n0", "n1", 200 * MB)) == {"f": pytest.approx(3.0)}


TWO_SITES = Platform(
    (Machine("a1", site="a"), Machine("a2", site="a"), Machine("b1", site="b")),
    latency_seconds=0.001,
    site_latency_seconds=0.02,
    site_bytes_per_second=10e6,
)


def test_only_what_leaves_a_site_crosses_its_link() -> None:
    fabric = Fabric(VirtualKernel(), TWO_SITES)

    assert len(fabric.route("a1", "a2")) == 4  # disk, up, down, disk
    assert len(fabric.route("a1", "b1")) == 6  # and out of one site, into the other
    assert len(fabric.route("origin", "a1")) == 4  # the server's link, into the site, down, disk


def test_latency_is_longer_between_sites() -> None:
    fabric = Fabric(VirtualKernel(), TWO_SITES)

    assert fabric.latency("a1", "a2") == 0.001
    assert fabric.latency("a1", "b1") == pytest.approx(0.021)
    assert fabric.latency("origin", "a1") == pytest.approx(0.021)


def test_a_sites_link_is_shared_by_all_that_crosses_it() -> None:
    arrived = Wires(TWO_SITES).run(("x", "a1", "b1", 10 * MB), ("y", "a2", "b1", 10 * MB))

    assert arrived == {"x": pytest.approx(2.0), "y": pytest.approx(2.0)}
