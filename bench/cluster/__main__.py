"""`python -m bench.cluster`: all parts, or some of them."""

import argparse
import sys

from rich.console import Console

import bench.cluster
from bench.cluster.bench import PARTS, run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster",
        description=bench.cluster.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of each size, one round")
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART")
    given = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 120)
    run(out, quick=given.quick, parts=given.only or list(PARTS))


if __name__ == "__main__":
    main()
