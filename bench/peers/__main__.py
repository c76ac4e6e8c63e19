"""`python -m bench.peers`: the contest, or some contestants in some workloads."""

import argparse
import sys

from rich.console import Console

from bench.peers.bench import run
from bench.peers.contest import CONTESTANTS, SIZES


def main() -> None:
    names = [each.name for each in CONTESTANTS]
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of each size")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=str(names))
    parser.add_argument("--workload", action="append", choices=list(SIZES))
    given = parser.parse_args()
    run(
        Console(width=None if sys.stdout.isatty() else 120),
        quick=given.quick,
        contestants=[each for each in CONTESTANTS if not given.only or each.name in given.only],
        workloads=given.workload or list(SIZES),
    )


if __name__ == "__main__":
    main()
