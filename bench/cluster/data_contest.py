"""Objects that are made once and read by many, on a few nodes: time and bytes, beside Ray and Dask.

A peer's objects are values, as its users have them; ours are files that commands write and read,
and, in a row of its own, values too.
"""

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.peers.bench import Outcomes, played, shown_as, write_record
from bench.peers.contest import REPOSITORY, Contestant, Failure, Result, can_have_own_network
from bench.peers.environments import python_of
from bench.peers.tables import Shown
from dataward.model.quantities import show_bytes

RECORD = REPOSITORY / "build" / "cluster-data.json"
ROUNDS = 3
FULL_PERCENT, QUICK_PERCENT = 100, 10

HEADINGS = {
    "locality": "40 x 20 MB, 400 readers, 2 nodes",
    "joins": "200 joins of two of 40, 4 nodes",
    "hot": "one hot object, 200 readers, 4 nodes",
    "tight": "joins, room for 60%, 4 nodes",
}
WORK = tuple(HEADINGS)

FILES = Contestant(
    "dataward, files", "data_on_dataward.py", package="dataward", options=("files",), workloads=WORK
)
# No limit can be set for values.
VALUES = Contestant(
    "dataward, values",
    "data_on_dataward.py",
    package="dataward",
    options=("values",),
    workloads=("locality", "joins", "hot"),
)
DASK = Contestant("Dask (saturation inf)", "data_on_dask.py", "dask", "distributed", workloads=WORK)
DASK_TLS = Contestant(
    "Dask, TLS", "data_on_dask.py", "dask", "distributed", options=("tls",), workloads=WORK
)
RAY = Contestant("Ray", "data_on_ray.py", "ray", "ray", workloads=WORK)
CONTESTANTS = (FILES, VALUES, DASK, DASK_TLS, RAY)


def show_data(out: Console, quick: bool, contestants: Sequence[Contestant] = CONTESTANTS) -> None:
    sizes = dict.fromkeys(WORK, QUICK_PERCENT if quick else FULL_PERCENT)
    pythons = {each.name: python_of(each) for each in contestants}
    rounds = 1 if quick else ROUNDS
    outcomes = played(sizes, contestants, pythons, rounds=rounds, own_network=True)
    write_record(RECORD, sizes, outcomes)
    out.print(_table(shown_as(contestants, pythons), outcomes))
    out.print(_ratios(outcomes))
    if not can_have_own_network():
        out.print("Bytes are not known: only root can give each run a network of its own.")


def _table(shown: Sequence[Shown], outcomes: Outcomes) -> Table:
    title = "seconds; bytes over the network, of which between nodes by its own count; CPU seconds"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for work in WORK:
        table.add_column(HEADINGS[work], justify="right")
    for each in shown:
        label = " ".join(filter(None, (each.contestant.name, each.version)))
        cells = (_cell(outcomes.get((each.contestant.name, work), ())) for work in WORK)
        table.add_row(label, *cells)
    return table


def _cell(results: Sequence[Result | Failure]) -> str:
    failures = [result for result in results if isinstance(result, Failure)]
    if failures:
        return failures[0].short
    counted = [result for result in results if isinstance(result, Result)]
    if not counted:
        return "–"
    moved, told = (_bytes(counted, name) for name in ("network_bytes", "told_bytes"))
    seconds = median(result.seconds for result in counted)
    cpu = median(result.cpu_seconds or 0.0 for result in counted)
    return f"{seconds:.2f} s; {moved} ({told}); {cpu:.1f} s"


def _bytes(results: Sequence[Result], name: str) -> str:
    value = _median(results, name)
    return "?" if value is None else show_bytes(round(value))


def _median(results: Sequence[Result | Failure], name: str) -> float | None:
    values = [getattr(result, name, None) for result in results]
    if not values or any(value is None for value in values):
        return None
    return float(median(values))


def _ratios(outcomes: Outcomes) -> Table:
    """Above 1 where ours takes less."""
    table = Table(title="the other's divided by ours: time, bytes, CPU", title_justify="left")
    table.add_column("")
    for work in WORK:
        table.add_column(work, justify="right")
    for ours in (FILES, VALUES):
        for other in (DASK, DASK_TLS, RAY):
            cells = (_ratio(outcomes, ours, other, work) for work in WORK)
            table.add_row(f"{other.name} / {ours.name}", *cells)
    return table


def _ratio(outcomes: Outcomes, ours: Contestant, other: Contestant, work: str) -> str:
    found = []
    for name in ("seconds", "network_bytes", "cpu_seconds"):
        mine = _median(outcomes.get((ours.name, work), ()), name)
        theirs = _median(outcomes.get((other.name, work), ()), name)
        found.append(f"{theirs / mine:.2f}" if mine and theirs is not None else "–")
    return ", ".join(found)
