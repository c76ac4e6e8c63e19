"""The contest itself: who can take part, the rounds in turn, the tables, and a record of it all."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median_low

from rich.console import Console

from bench.peers.contest import (
    CONTESTANTS,
    DATAWARD,
    QUICK_SIZES,
    REPOSITORY,
    SIZES,
    Contestant,
    Failure,
    Result,
    own_python,
    run_once,
)
from bench.peers.environments import python_of, version_of
from bench.peers.tables import Shown, memory_table, rates_table, ratios_table

ROUNDS = 3
MANY = 100_000
RECORD = REPOSITORY / "build" / "peers.json"

Outcomes = dict[tuple[str, str], list[Result | Failure]]


def run(
    out: Console,
    *,
    quick: bool = False,
    contestants: Sequence[Contestant] = CONTESTANTS,
    workloads: Sequence[str] = tuple(SIZES),
) -> None:
    sizes = {w: (QUICK_SIZES if quick else SIZES)[w] for w in workloads}
    pythons = {each.name: python_of(each) for each in contestants}
    outcomes = played(sizes, contestants, pythons)
    write_record(RECORD, sizes, outcomes)
    shown = shown_as(contestants, pythons)
    out.print(rates_table(shown, sizes, outcomes))
    _print_notes(out, contestants, sizes)
    out.print(ratios_table(workloads, outcomes))
    if quick:
        out.print("The targets are meant for the full sizes; these were a tenth.", highlight=False)
    if DATAWARD in contestants and "functions" in workloads:
        _run_many(out, MANY // 10 if quick else MANY, outcomes)


def played(
    sizes: Mapping[str, int],
    contestants: Sequence[Contestant],
    pythons: Mapping[str, Path | Failure],
    *,
    rounds: int = ROUNDS,
    own_network: bool = False,
) -> Outcomes:
    """The rounds of each workload that has a size."""
    outcomes: Outcomes = {}
    for workload in sizes:
        _play(workload, sizes, contestants, pythons, outcomes, rounds, own_network)
    return outcomes


def _play(
    workload: str,
    sizes: Mapping[str, int],
    contestants: Sequence[Contestant],
    pythons: Mapping[str, Path | Failure],
    outcomes: Outcomes,
    rounds: int,
    own_network: bool,
) -> None:
    """Everybody once, then everybody again, so that a busy minute is shared by all."""
    for number in range(1, rounds + 1):
        for each in (c for c in contestants if workload in c.workloads):
            results = outcomes.setdefault((each.name, workload), [])
            # A failure is not repeated: two minutes of waiting teach nothing new.
            if results and isinstance(results[-1], Failure):
                continue
            python = pythons[each.name]
            if isinstance(python, Failure):
                results.append(python)
                continue
            size = each.size(workload, sizes)
            result = run_once(each, python, workload, size, own_network=own_network)
            results.append(result)
            _say(f"{workload}, round {number}, {each.name}: {_in_words(result)}")


def _in_words(result: Result | Failure) -> str:
    if isinstance(result, Failure):
        return f"{result.short} ({result.reason})"
    return f"{result.tasks} tasks in {result.seconds:.2f} s"


def shown_as(
    contestants: Sequence[Contestant], pythons: Mapping[str, Path | Failure]
) -> list[Shown]:
    shown = []
    for each in contestants:
        python = pythons[each.name]
        shown.append(Shown(each, "" if isinstance(python, Failure) else version_of(each, python)))
    return shown


def _print_notes(out: Console, contestants: Sequence[Contestant], sizes: Mapping[str, int]) -> None:
    for each in contestants:
        for workload, size in sizes.items():
            if each.size(workload, sizes) < size:
                ran = f"{each.size(workload, sizes):,} of {size:,}"
                out.print(f"* {each.name} ran {ran} {workload}.", highlight=False)
    out.print(
        "Start-up is not counted but in the rows that say so. – is what a contestant cannot do: "
        "HyperQueue and Snakemake have no functions with results.",
        highlight=False,
    )


def _run_many(out: Console, count: int, outcomes: Outcomes) -> None:
    """Ten times the tasks should go at the same rate, and those that wait should be small."""
    few = outcomes[DATAWARD.name, "functions"]
    if isinstance(few[-1], Failure):
        return
    many = [run_once(DATAWARD, own_python(), "functions", count) for _ in range(ROUNDS)]
    waiting = run_once(DATAWARD, own_python(), "memory", count)
    failures = [each for each in (*few, *many, waiting) if isinstance(each, Failure)]
    if failures or isinstance(waiting, Failure):
        out.print(f"dataward with many tasks: {_in_words(failures[0])}", highlight=False)
        return
    out.print(memory_table(_middle(few), _middle(many), waiting))


def _middle(results: Sequence[Result | Failure]) -> Result:
    counted = [result for result in results if isinstance(result, Result)]
    seconds = median_low(result.seconds for result in counted)
    return next(result for result in counted if result.seconds == seconds)


def write_record(path: Path, sizes: Mapping[str, int], outcomes: Outcomes) -> None:
    """Every round, for those who doubt a median."""
    path.parent.mkdir(exist_ok=True)
    runs = [
        {"contestant": name, "workload": workload, "rounds": [asdict(each) for each in results]}
        for (name, workload), results in outcomes.items()
    ]
    path.write_text(json.dumps({"sizes": dict(sizes), "runs": runs}, indent=1) + "\n")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
