"""`python -m bench mutants`: break lines, one at a time, and see whether the tests notice."""

import argparse
import os
import sys
from itertools import islice

from rich.console import Console

from bench.mutants.bench import REPOSITORY, Options, run
from bench.mutants.draw import draw
from bench.mutants.rooms import ROOMS, Project


def main() -> None:
    given = _parser().parse_args()
    project = Project(REPOSITORY, tuple(r for r in ROOMS if r.name in given.rooms))
    if given.list:
        mutants = draw(project.root, project.rooms, given.seed, given.files)
        for mutant in islice(mutants, given.count):
            print(f"{mutant.file}:{mutant.line}  {mutant.before} -> {mutant.after}")
        return
    options = Options(
        count=given.count,
        seed=given.seed,
        files=tuple(given.files),
        workers=given.workers,
        with_seeds=given.with_seeds,
        again=given.again,
        fresh=given.fresh,
    )
    out = Console(width=None if sys.stdout.isatty() else 120)
    sys.exit(run(out, project, options))


def _parser() -> argparse.ArgumentParser:
    names = [room.name for room in ROOMS]
    parser = argparse.ArgumentParser(prog="python -m bench mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many lines; default: 300")
    parser.add_argument("--seed", type=int, default=1, help="of the draw; default: 1")
    parser.add_argument(
        "--rooms", nargs="+", choices=names, default=names, metavar="ROOM", help=", ".join(names)
    )
    parser.add_argument(
        "--files",
        nargs="+",
        default=(),
        metavar="PATTERN",
        help="only these files of the rooms, such as node/lease.py or 'live/depot*.py'",
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="at a time; default: all cores"
    )
    parser.add_argument(
        "--with-seeds", action="store_true", help="run the tests that try many seeds as well"
    )
    parser.add_argument(
        "--again", action="store_true", help="try survivors again, but for those judged"
    )
    parser.add_argument("--fresh", action="store_true", help="forget all that is known")
    parser.add_argument("--list", action="store_true", help="only print the draw")
    return parser


if __name__ == "__main__":
    main()
