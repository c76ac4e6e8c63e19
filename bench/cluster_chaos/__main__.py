"""Hurts a cluster of real processes at random while it runs workflows, and judges the outcome.

    python -m bench.cluster_chaos --seconds 600 --seed 1
    python -m bench.cluster_chaos --seconds 60 --seed 7 --only kill --only failover
    python -m bench.cluster_chaos --seconds 60 --seed 7 --keep build/chaos

    python -m bench.cluster_chaos --seconds 60 --seed 7 --capacity 1MB

For root, nodes are in network namespaces and are also cut off from each other; ``--together`` does
without. Exits with 1 when a promise was broken; the cluster's directory, with all logs, is then
kept.
"""

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

from bench.cluster_chaos.campaign import WEIGHTS, RoundReport, hurt
from bench.cluster_chaos.lan import can_enter, enter
from bench.cluster_chaos.rig import Rig


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster_chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="rounds begin until then")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--only", action="append", default=[], choices=sorted(WEIGHTS))
    parser.add_argument("--keep", type=Path, help="the cluster's directory; made, and kept")
    parser.add_argument("--capacity", default="", help="of each depot, as for `dataward node`")
    parser.add_argument("--together", action="store_true", help="all nodes on one address")
    given = parser.parse_args()
    is_spaced = not given.together and can_enter()
    if is_spaced:
        enter(["-m", "bench.cluster_chaos", *sys.argv[1:]])
    path = given.keep or Path(mkdtemp(prefix="dataward-chaos-")) / "lab"

    def tell(report: RoundReport) -> None:
        print(f"seed {given.seed}, {report.line()}", flush=True)

    with Rig(path, nodes=given.nodes, is_spaced=is_spaced, capacity=given.capacity) as rig:
        reports = asyncio.run(hurt(rig, given.seed, given.seconds, tell, given.only))
    broken = [report for report in reports if report.problems]
    print(
        f"seed {given.seed}: {len(reports)} rounds, {sum(r.tasks for r in reports)} tasks, "
        f"{sum(len(r.harms) for r in reports)} harms, {len(broken)} failed"
    )
    if broken:
        for problem in broken[0].problems:
            print(f"  {problem}")
        sys.exit(f"the cluster's directory is kept: {path}")
    if given.keep is None:
        shutil.rmtree(path.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
