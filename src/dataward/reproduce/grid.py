"""The simulated grid of the worker-centric paper: sites with a few workers and one data server.

A site is one node: its cores are the site's workers, its depot is the data server's storage.
"""

from math import exp, log, sqrt

from dataward.model.ids import NodeId
from dataward.model.platform import GBPS, Machine, Platform
from dataward.model.seeds import seeded

SITES_MAX = 90
# Table 3: mean and deviation of the bandwidth between a site and the file server, in MB/s.
TOPOLOGIES = ((4.418, 5.416), (4.631, 6.734), (3.858, 2.599), (3.432, 1.432), (3.932, 2.778))

# The TOP500 list of November 2006: GFlop/s of the first and the last.
FASTEST, SLOWEST, LISTED = 280_600.0, 2_737.0, 500
DIVISOR = 100.0  # "uniformly divided by 100"
NOMINAL_MFLOPS = 1000.0  # at which generated run times are meant

INSIDE_BYTES_PER_SECOND = 1e12  # "intra-site communication costs are negligible"

SETUP = """
A site is a node whose cores are the site's workers; its depot is the data server, which fetches one
file at a time, so that batches of files are served one by one. All files come from the external
file server, and a worker fetches them when it has taken a task, not ahead. A task's work is its
number of files times the unit cost.

Assumed, since neither the topologies nor the trace are public: Coadd is the generated one; a site's
bandwidth is drawn from a log-normal distribution with the mean and deviation of Table 3, and paths
share no link, so that the file server is never the limit; a worker's speed is that of a machine
drawn from the TOP500 list of November 2006, from the first (280,600 GFlop/s) to the last (2,737)
along a power law, divided by 100 and read as MFLOPS (read as GFLOPS, nothing would be computed for
as long as the paper's figures say); all workers of a site are equally fast. A background load above
95% counts as 95%. Leases and validations are long, since nothing crashes.
"""


def speed_mflops(rank: int) -> float:
    """The speed of the machine at this place of the TOP500 list, as the paper divides it."""
    exponent = log(FASTEST / SLOWEST) / log(LISTED)
    return FASTEST / float(rank**exponent) / DIVISOR


def grid(
    topology: int, sites: int, workers: int, capacity_files: int, file_bytes: int, spare_bytes: int
) -> Platform:
    """The first ``sites`` of a topology's 90; each has room for so many files, and outputs."""
    mean, deviation = TOPOLOGIES[topology]
    variance = log(1 + (deviation / mean) ** 2)
    random = seeded(topology, "worker-centric sites")
    machines = []
    for place in range(SITES_MAX):
        width = random.gauss(log(mean) - variance / 2, sqrt(variance))
        speed = speed_mflops(random.randint(1, LISTED))
        machines.append(
            Machine(
                NodeId(f"site{place:02}"),
                cores=workers,
                speed=speed / NOMINAL_MFLOPS,
                capacity_bytes=capacity_files * file_bytes + spare_bytes,
                disk_bytes_per_second=INSIDE_BYTES_PER_SECOND,
                up_bytes_per_second=1e6 * exp(width),
                down_bytes_per_second=1e6 * exp(width),
                site=f"site{place:02}",
            )
        )
    return Platform(tuple(machines[:sites]), origin_bytes_per_second=1000 * GBPS)
