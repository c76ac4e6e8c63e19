"""Runs of the PeerComp paper: many nodes that promise workflows in time, and what is read off."""

from math import log10

import numpy as np

from dataward.deadlines.frames import outline_of
from dataward.generate import generate
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, Study, a_cell, as_number
from dataward.sim.deadline_gauges import DeadlineGauges
from dataward.sim.deadline_world import DeadlineSettings, DeadlineWorld

REVISION = 2  # raised when the simulated world has changed so that old numbers do not count
TASK_SECONDS = 300.0
PAPERS = (("fork-join", 10), ("laplace", 9))  # the sizes with the paper's largest speed-ups
SIZES = (
    ("fork-join", 5), ("fork-join", 10), ("fork-join", 20), ("fork-join", 40),
    ("laplace", 9), ("laplace", 16), ("laplace", 25), ("laplace", 36),
)  # fmt: skip
MIXES = {"papers": PAPERS, "sizes": SIZES}
PROFILE = np.linspace(0.0, 100.0, 101)
MILLION = 1_000_000
SECONDS_PER_NODE = 0.0009  # that it takes to simulate ten minutes

SETUP = """
Nodes are in a balanced tree of groups of two, with links of 1 Mbps; a message takes 30 to 70 ms, as
even draws with the paper's mean of 50 ms, and its length over the bandwidth. Workflows arrive in a
Poisson process with as much work as all nodes can do.

Assumed, since the paper does not say: tasks take 300 s at speed 1 ("task lengths of just a few
minutes"); speeds are drawn evenly from 0.5 to 1.5; at the start nodes are busy for up to 20
minutes; nodes tell of changed holes at most once a second, and all of them anew every five minutes,
when reference points change; a reservation expires after 60 s; a request may come down to a hole
that is gone three times. A workflow that cannot be promised is refused, and not run.
"""


def measure(values: CellValues) -> Numbers:
    kinds = MIXES[str(values["mix"])]
    outlines = [outline_of(generate(name, tasks, seconds=TASK_SECONDS)) for name, tasks in kinds]
    minutes, drain = as_number(values["minutes"]), as_number(values["drain_minutes"])
    settings = DeadlineSettings(
        int(as_number(values["nodes"])),
        seed=int(as_number(values["seed"])),
        priority=as_number(values["priority"]),
        horizon_seconds=60.0 * minutes,
    )
    world = DeadlineWorld(settings, outlines)
    gauges = world.run(60.0 * (minutes + drain))
    numbers = read_off(gauges, settings.nodes)
    for kind in range(len(kinds)):
        numbers |= _read_off_kind(gauges, kind)
    return numbers


def read_off(gauges: DeadlineGauges, nodes: int) -> dict[str, float | list[float]]:
    """The numbers of a run that are not about one kind of workflow."""
    allocation = gauges.allocation_seconds()
    ended = gauges.ended()
    return {
        "submitted": float(len(gauges.workflows)),
        "accepted": float(len(allocation)),
        "late": float(sum(w.is_late for w in ended)),
        "ended": float(len(ended)),
        "allocation_mean": float(np.mean(allocation)) if allocation else 0.0,
        "allocation_p95": float(np.percentile(allocation, 95)) if allocation else 0.0,
        "hops_mean": float(np.mean(gauges.hops)) if gauges.hops else 0.0,
        "events_mean": float(gauges.events.total.sum() / nodes / gauges.seconds),
        "events_max": float(gauges.events.peak.max()),
        "sent_peaks": np.percentile(gauges.sent.peak, PROFILE).tolist(),
        "received_peaks": np.percentile(gauges.received.peak, PROFILE).tolist(),
    }


def _read_off_kind(gauges: DeadlineGauges, kind: int) -> dict[str, float | list[float]]:
    allocation = gauges.allocation_seconds(kind)
    speed_ups = [w.speed_up for w in gauges.ended(kind)]
    submitted = sum(w.kind == kind for w in gauges.workflows)
    return {
        f"allocation_{kind}": np.percentile(allocation or [0.0], PROFILE).tolist(),
        f"speed_up_{kind}": float(np.mean(speed_ups)) if speed_ups else 0.0,
        f"accepted_{kind}": len(allocation) / max(submitted, 1),
    }


def described(values: CellValues) -> str:
    return repr((REVISION, TASK_SECONDS, MIXES[str(values["mix"])], sorted(values.items()),
                 DeadlineSettings(1)))  # fmt: skip


def no_strategy(values: CellValues) -> str:
    return ""


PEERCOMP = Study("peercomp", measure, described, no_strategy)


def ten_minutes(nodes: int) -> Cell:
    """Ten minutes of arrivals of all sizes, and one more in which they are allocated."""
    return a_cell(
        SECONDS_PER_NODE * nodes, nodes=nodes, mix="sizes", priority=1.2, minutes=10,
        drain_minutes=1, seed=0,
    )  # fmt: skip


def most_nodes(results: Results) -> float:
    return max(as_number(nodes) for nodes in results.axis("nodes"))


def shown_nodes(nodes: float) -> str:
    return "a million nodes" if nodes == MILLION else f"{nodes:,.0f} nodes"


def logarithmic_fit(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(a, b, R squared) of y = a + b log10(x), by least squares."""
    x = np.array([log10(nodes) for nodes, _ in points])
    y = np.array([value for _, value in points])
    slope, start = np.polyfit(x, y, 1)
    rest = float(((y - start - slope * x) ** 2).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    return float(start), float(slope), 1.0 - rest / spread if spread else 1.0
