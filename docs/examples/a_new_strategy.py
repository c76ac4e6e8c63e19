"""A strategy of one's own: a plan, and parts that are there already."""

import numpy as np

from dataward import generate, simulate
from dataward.node.giving import Giving
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan
from dataward.strategies.strategy import Strategy


def longest_first(workflow, platform, located, seed):
    """Every task on the node with the least work so far, long tasks before short ones."""
    seconds = workflow.runtime_seconds
    work = np.zeros(len(platform.machines))
    preferred = np.zeros(len(workflow), dtype=np.int32)
    for task in np.argsort(-seconds, kind="stable"):
        preferred[task] = work.argmin()
        work[preferred[task]] += seconds[task]
    return Plan(-seconds, preferred, None)


mine = Strategy(
    "longest-first",
    "long tasks first, on whichever node has least to do",
    longest_first,
    settings=NodeSettings(backups_max=0),
    mover=Giving(replication=False),
)

for strategy in (mine, "adage", "workqueue"):
    report = simulate(generate("cybershake", 200, seed=1), nodes=8, strategy=strategy)
    summary = report.summary
    print(f"{summary.strategy:<14} {summary.makespan_seconds:6.1f} s, {summary.given} tasks given")
