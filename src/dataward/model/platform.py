"""The simulated machines, links and store."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from dataward.errors import SettingError
from dataward.model.ids import ORIGIN, NodeId

GBPS = 125e6  # bytes per second
CORES_MAX = 100_000
RESERVED = frozenset({ORIGIN, "client"})


@dataclass(frozen=True, slots=True)
class Machine:
    """One node's hardware; the defaults are those of ADAGE's section IV, with an ordinary disk."""

    id: NodeId
    cores: int = 4
    speed: float = 1.0  # run times are divided by the speed
    memory_bytes: float = 8e9
    capacity_bytes: float = 1e12
    disk_bytes_per_second: float = 500e6
    up_bytes_per_second: float = GBPS
    down_bytes_per_second: float = GBPS
    site: str = "site"
    sync_seconds: float = 0.0  # to write files and their names through to the disk, besides bytes


class Placement(Enum):
    """Where the workflow's inputs are at the start, besides the origin, which has them all."""

    EDGE = "edge"  # nowhere else
    SPREAD = "spread"  # each input on ``copies`` nodes drawn at random
    DEALT = "dealt"  # the same number on every node, as cards are dealt; which, is drawn at random


@dataclass(frozen=True, slots=True)
class StoreModel:
    """What the shared store costs: each shard serves one operation after another."""

    shards: int = 8
    latency_seconds: float = 0.0003  # one way
    service_seconds: float = 0.00001  # per operation; a Valkey core does some 100,000 a second

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise SettingError(f"the store needs at least 1 shard, not {self.shards}")


@dataclass(frozen=True, slots=True)
class Platform:
    """Machines in one or more sites, their links, and the edge server with the inputs."""

    machines: tuple[Machine, ...]
    latency_seconds: float = 0.0005  # one way, between nodes
    site_bytes_per_second: float = float("inf")  # a site's link to all others, each way
    site_latency_seconds: float = 0.0  # added between sites
    origin_bytes_per_second: float = 10 * GBPS
    origin_site: str = ""  # "": outside all sites, reached through a site's link
    placement: Placement = Placement.EDGE
    copies: int = 1
    store: StoreModel = StoreModel()

    def __post_init__(self) -> None:
        if not self.machines:
            raise SettingError("a platform needs at least one node")
        if len({machine.id for machine in self.machines}) < len(self.machines):
            raise SettingError("two nodes of the platform have the same name")
        for machine in self.machines:
            _check_machine(machine)
        _check_above_zero("the origin's bandwidth", self.origin_bytes_per_second)
        if not self.site_bytes_per_second > 0:
            raise SettingError("the sites' bandwidth must be above 0")
        if self.copies < 1:
            raise SettingError(f"inputs need at least 1 copy each, not {self.copies}")

    @property
    def cores(self) -> int:
        return sum(machine.cores for machine in self.machines)


def _check_above_zero(what: str, value: float) -> None:
    if not 0 < value < inf:
        raise SettingError(f"{what} must be above 0 and finite, not {value:g}")


def _check_machine(machine: Machine) -> None:
    if machine.id in RESERVED or machine.id.startswith("store-"):
        raise SettingError(f"a node cannot be called {machine.id!r}: that name is reserved")
    if machine.cores > CORES_MAX:
        raise SettingError(f"node {machine.id!r} has more than {CORES_MAX:,} cores")
    for name in (
        "cores", "speed", "memory_bytes", "capacity_bytes", "disk_bytes_per_second",
        "up_bytes_per_second", "down_bytes_per_second",
    ):  # fmt: skip
        _check_above_zero(f"{name} of node {machine.id!r}", getattr(machine, name))
    if not 0 <= machine.sync_seconds < inf:
        what = f"sync_seconds of node {machine.id!r}"
        raise SettingError(f"{what} must be at least 0 and finite, not {machine.sync_seconds:g}")


def uniform_platform(nodes: int, *, cores: int = 4, bandwidth: float = GBPS) -> Platform:
    """A platform of equal nodes, whose names sort in the order of their numbers."""
    width = len(str(max(nodes - 1, 0)))
    return Platform(
        tuple(
            Machine(
                NodeId(f"n{i:0{width}}"),
                cores=cores,
                up_bytes_per_second=bandwidth,
                down_bytes_per_second=bandwidth,
            )
            for i in range(nodes)
        )
    )
