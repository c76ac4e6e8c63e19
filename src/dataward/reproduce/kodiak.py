"""The cluster that MATRIX ran on, and the file systems it is compared with."""

from dataclasses import replace

from dataward.model.platform import GBPS, Placement, Platform, StoreModel, uniform_platform

CORES_PER_NODE = 2
CORES_MAX = 200
MEMORY_BYTES_PER_SECOND = 5e9
LATENCY_SECONDS = 0.0003
GPFS_BYTES_PER_SECOND = 3.4 * GBPS

# A thread fetches a task's data when it has popped the task, not before (section 2.2.2).
NO_STAGING_AHEAD = "staging_ahead=0"

SETUP = """
Nodes have 2 cores each, as Kodiak's. Assumed, since the paper does not say: links of 1 Gb/s (the
published efficiency of all-pairs from a best-case parallel file system, under 20%, is what 1 Gb/s
allows: 24 MB for each of two tasks of 100 ms take 384 ms); data are kept in memory, which is read
at 5 GB/s; 0.6 ms there and back to another node or to the store, which has a shard on every node,
as ZHT; GPFS serves 3.4 Gb/s in all, as in Falkon's papers. Nodes bring a task's data in when a core
is free for it, not ahead. Input files are "randomly distributed" and "uniformly distributed over
all compute nodes": every node has as many, and which is drawn. (If each file's node were drawn by
itself, the fullest of 64 nodes would have nearly twice as many files as the average at locality 30,
and MDL would take 280 ms a task.)
"""


def kodiak(
    cores: int,
    *,
    placement: Placement = Placement.EDGE,
    copies: int = 1,
    origin_bytes_per_second: float = GPFS_BYTES_PER_SECOND,
) -> Platform:
    """Nodes of two cores; the origin is the parallel file system."""
    nodes = cores // CORES_PER_NODE
    equal = uniform_platform(nodes, cores=CORES_PER_NODE)
    return replace(
        equal,
        machines=tuple(
            replace(machine, disk_bytes_per_second=MEMORY_BYTES_PER_SECOND)
            for machine in equal.machines
        ),
        latency_seconds=LATENCY_SECONDS,
        origin_bytes_per_second=origin_bytes_per_second,
        placement=placement,
        copies=min(copies, nodes),
        store=StoreModel(shards=nodes, latency_seconds=LATENCY_SECONDS),
    )
