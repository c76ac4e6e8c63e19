"""What each part of our own strategy is worth: the strategy whole, and without one part at a time.

    python -m bench.parts [fair | unknown | stragglers | ...] [--nodes 4,16,64]
        [--only window_bytes,uploads_max] [--jobs 1] [--keep results.jsonl]

Each number is how many times as long the five applications of 1,000 tasks take without the part,
a geometric mean over applications and seeds: below 1, the part costs more than it brings. The last
two columns name the applications (means over seeds) where the part brings most and costs most.
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean, geometric_mean

from rich import box
from rich.console import Console
from rich.table import Table

from bench.schedules import APPLICATIONS, TASKS, WEATHERS, Cell, add_options, measure

# A part's name, and what switches it off.
PARTS: dict[str, tuple[str, ...]] = {
    "large files one at a time": ("window_bytes=inf",),
    "giving way": ("give_way_share=0",),
    "idle staging": ("idle_staging=0",),
    "one upload at a time": ("uploads_max=0",),
    "copies of what took long": ("safe_bytes_per_second=0",),
    "second runs, spares too": ("backups_max=0",),
    "spares": ("spare_seconds=inf",),
    "offers, and second runs": ("mover=heft-links",),
    "volunteers": ("volunteers=false",),
    "cores and links by urgency": ("precedence=arrival",),
    "latest starts": ("plan=heft-links",),
    "short leases": ("lease_seconds=125", "validation_seconds=62.5"),
}


def cells_of(changes: tuple[str, ...], given: argparse.Namespace) -> list[Cell]:
    return [
        Cell(application, TASKS, int(count), weather, "dataward", int(seed), changes)
        for seed in given.seeds.split(",")
        for weather in given.weather
        for count in given.nodes.split(",")
        for application in APPLICATIONS
    ]


def rows_of(
    ratios: dict[Cell, float], parts: Iterable[str], given: argparse.Namespace
) -> Iterable[tuple[str, ...]]:
    """A row for each part: its worth by weather and nodes, and where it is largest and smallest."""
    for part in parts:
        off = {cell: ratios[cell] for cell in cells_of(PARTS[part], given)}
        worth = {cell: ratio / ratios[replace(cell, changes=())] for cell, ratio in off.items()}
        by_place: dict[tuple[str, int], list[float]] = {}
        by_cell: dict[tuple[str, str, int], list[float]] = {}
        for cell, times in worth.items():
            by_place.setdefault((cell.weather, cell.nodes), []).append(times)
            by_cell.setdefault((cell.application, cell.weather, cell.nodes), []).append(times)
        ends = sorted((fmean(times), where) for where, times in by_cell.items())
        yield (
            part,
            *(f"{geometric_mean(times):.3f}" for times in by_place.values()),
            f"{geometric_mean(worth.values()):.3f}",
            *(f"{times:.2f} {' '.join(map(str, where))}" for times, where in (ends[-1], ends[0])),
        )


def run(out: Console, *, quick: bool = False, given: argparse.Namespace | None = None) -> None:
    given = given or _parser().parse_args([])
    given.weather = given.weather or ["fair", "unknown", "stragglers"]
    given.seeds = given.seeds.split(",")[0] if quick else given.seeds
    ratios: dict[Cell, float] = {}
    parts = [part for part in PARTS if _is_asked_for(part, given.only)]
    for changes in ((), *(PARTS[part] for part in parts)):
        ratios |= measure(cells_of(changes, given), given.jobs, given.keep)
    places = [f"{weather} {count}" for weather in given.weather for count in given.nodes.split(",")]
    table = Table("without", *places, "all", "brings most", "costs most", box=box.MARKDOWN)
    for row in rows_of(ratios, parts, given):
        table.add_row(*row)
    out.print(table)


def _is_asked_for(part: str, only: str) -> bool:
    return any(word in change for word in only.split(",") for change in PARTS[part])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.parts")
    parser.add_argument("weather", nargs="*", choices=[[], *WEATHERS])
    parser.add_argument("--quick", action="store_true", help="the first seed only")
    parser.add_argument("--only", default="", help="settings, as window_bytes,give_way_share")
    add_options(parser)
    parser.set_defaults(nodes="4,16,64")
    return parser


if __name__ == "__main__":
    options = _parser().parse_args()
    run(Console(width=260), quick=options.quick, given=options)
