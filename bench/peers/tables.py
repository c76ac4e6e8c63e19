"""Rounds in; tables of rates, ratios and memory out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from bench.peers.contest import DATAWARD, POOL, RAY, SNAKEMAKE, SPAWN, Contestant, Failure, Result

Rounds = Mapping[tuple[str, str], Sequence[Result | Failure]]
"""By contestant's name and workload."""

Seconds = Callable[[Result], float | None]

HEADINGS = {
    "functions": "no-op functions",
    "chains": "100 chains",
    "tree": "fan-in tree",
    "commands": "commands `true`",
    "files": "file DAG",
}

Targets = Mapping[tuple[str, str], float]
"""What the project promises of our rate divided by the other's, by its name and the workload."""

TARGETS: Targets = {
    (RAY.name, "functions"): 10.0,
    (RAY.name, "commands"): 2.0,
    (RAY.name, "files"): 1.3,
    (POOL.name, "functions"): 2.0,
    (SPAWN.name, "commands"): 0.75,
    (SNAKEMAKE.name, "files"): 10.0,
}
WAITING_BYTES_MAX = 2048


@dataclass(frozen=True, slots=True)
class Shown:
    """A contestant as it appears in the table."""

    contestant: Contestant
    version: str


def run_seconds(result: Result) -> float | None:
    return result.seconds


def whole_seconds(result: Result) -> float | None:
    return result.whole_seconds


def rate(rounds: Rounds, name: str, workload: str, seconds: Seconds = run_seconds) -> float | None:
    """The median of the rounds' tasks a second; None if any round failed or has no such time."""
    results = rounds.get((name, workload), ())
    rates = []
    for result in results:
        took = None if isinstance(result, Failure) else seconds(result)
        if took is None:
            return None
        rates.append(result.tasks / took)
    return median(rates) if rates else None


def rates_table(shown: Sequence[Shown], sizes: Mapping[str, int], rounds: Rounds) -> Table:
    workloads = list(sizes)
    table = _table("tasks a second, two slots, median of the rounds", "", workloads)
    for each in shown:
        contestant = each.contestant
        label = " ".join(filter(None, (contestant.name, each.version)))
        table.add_row(label, *(_cell(contestant, w, sizes, rounds) for w in workloads))
        whole = [rate(rounds, contestant.name, w, whole_seconds) for w in workloads]
        if any(whole):
            table.add_row("  with start and stop", *(_number(value) for value in whole))
    return table


def ratios_table(
    workloads: Sequence[str],
    rounds: Rounds,
    ours: Contestant = DATAWARD,
    others: Sequence[Contestant] = (RAY, POOL, SPAWN, SNAKEMAKE),
    targets: Targets = TARGETS,
) -> Table:
    table = _table(f"the rate of {ours.name} divided by the other's", "beside", workloads)
    for other in others:
        table.add_row(
            other.name, *(_ratio(ours.name, other.name, w, rounds, targets) for w in workloads)
        )
    return table


def memory_table(few: Result, many: Result, waiting: Result) -> Table:
    table = Table(title="dataward with many tasks", title_justify="left")
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_column("target")
    for result in (few, many):
        table.add_row(f"{result.tasks:,} functions", f"{result.tasks / result.seconds:,.0f}/s", "")
    assert waiting.bytes_each is not None
    met = "met" if waiting.bytes_each < WAITING_BYTES_MAX else "not met"
    table.add_row(
        f"resident memory for each of {waiting.tasks:,} that wait",
        f"{waiting.bytes_each:,.0f} bytes",
        f"< {WAITING_BYTES_MAX:,} bytes, {met}",
    )
    return table


def _table(title: str, first: str, workloads: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for workload in workloads:
        table.add_column(HEADINGS[workload], justify="right")
    return table


def _cell(contestant: Contestant, workload: str, sizes: Mapping[str, int], rounds: Rounds) -> str:
    results = rounds.get((contestant.name, workload), ())
    failures = [result for result in results if isinstance(result, Failure)]
    if failures:
        return failures[0].short
    star = "*" if results and contestant.size(workload, sizes) < sizes[workload] else ""
    return _number(rate(rounds, contestant.name, workload)) + star


def _ratio(ours_name: str, name: str, workload: str, rounds: Rounds, targets: Targets) -> str:
    ours, theirs = rate(rounds, ours_name, workload), rate(rounds, name, workload)
    target = targets.get((name, workload))
    wanted = "" if target is None else f"≥ {target:g}"
    if ours is None or theirs is None:
        return f"– ({wanted})" if wanted else "–"
    ratio = ours / theirs
    if target is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} ({wanted}: {'yes' if ratio >= target else 'no'})"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
