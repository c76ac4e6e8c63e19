"""`python -m bench.worst`: search for the instances on which our strategy does worst.

    python -m bench.worst --minutes 15 --seed 1 --json build/worst.json
    python -m bench.worst --replay build/worst.json --write build/worst

The second form measures kept instances again, and writes each as a workflow and a platform for
`dataward simulate worst-1.json --platform worst-1.yaml --seed ...`.
"""

import argparse
import sys
from pathlib import Path
from time import process_time

import msgspec
from rich.console import Console
from rich.table import Table

from bench.worst.instance import write_platform
from bench.worst.search import OTHERS, OURS, Found, makespan_seconds, restarts
from dataward.formats.write import write_workflow


def search(minutes: float, seed: int, kept: int) -> list[Found]:
    """The worst instances of all restarts that fit into so many minutes of CPU, worst first."""
    found: list[Found] = []
    until = process_time() + 60 * minutes
    for each in restarts(seed):
        found.append(each)
        print(f"  restart {each.restart}: {each.ratio:.3f}", file=sys.stderr, flush=True)
        if process_time() >= until:
            break
    return sorted(found, key=lambda each: -each.ratio)[:kept]


def table_of(found: list[Found]) -> Table:
    names = (OURS, *OTHERS)
    table = Table(
        "", "tasks", "nodes", "seed", "ratio", *names, title="ours over the best of others"
    )
    for number, each in enumerate(found, 1):
        instance = each.instance
        spans = [makespan_seconds(instance, name) for name in names]
        size = (str(number), str(len(instance.tasks)), str(len(instance.nodes)), str(instance.seed))
        ratio = f"{spans[0] / min(spans[1:]):.3f}"
        table.add_row(*size, ratio, *(f"{seconds:,.1f}" for seconds in spans))
    return table


def write_for_simulate(found: list[Found], place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(found, 1):
        write_workflow(each.instance.workflow(), place / f"worst-{number}.json")
        write_platform(each.instance, place / f"worst-{number}.yaml")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.worst", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of CPU; default: 10")
    parser.add_argument("--seed", type=int, default=1, help="of the search; default: 1")
    parser.add_argument("--kept", type=int, default=10, help="instances; default: 10")
    parser.add_argument("--json", type=Path, help="keep the instances in this file")
    parser.add_argument("--replay", type=Path, help="measure the instances of this file again")
    parser.add_argument("--write", type=Path, help="write workflows and platforms here")
    return parser


def main() -> None:
    given = _parser().parse_args()
    if given.replay:
        found = msgspec.json.decode(given.replay.read_bytes(), type=list[Found])
    else:
        found = search(given.minutes, given.seed, given.kept)
    if given.json:
        lines = b",\n".join(map(msgspec.json.encode, found))
        given.json.write_bytes(b"[\n" + lines + b"\n]\n")
    if given.write:
        write_for_simulate(found, given.write)
    Console(width=None if sys.stdout.isatty() else 120).print(table_of(found))


if __name__ == "__main__":
    main()
