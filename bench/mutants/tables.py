"""Trials in; a table of rooms and the list of survivors out."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from bench.mutants.draw import Mutant
from bench.mutants.records import COSTS_TIME, EQUIVALENT, Judgements, Trial
from bench.mutants.trials import CAUGHT, SURVIVED, TIMED_OUT

LINE_MAX = 160


def rooms_table(trials: Sequence[Trial], judgements: Judgements) -> Table:
    table = Table(title="mutants", title_justify="left")
    table.add_column("room")
    for heading in ("drawn", "caught", "timed out", "survived", EQUIVALENT, COSTS_TIME, "share"):
        table.add_column(heading, justify="right")
    rooms = list(dict.fromkeys(trial.mutant.room for trial in trials))
    for room in sorted(rooms):
        table.add_row(*_row(room, [t for t in trials if t.mutant.room == room], judgements))
    if len(rooms) > 1:
        table.add_section()
        table.add_row(*_row("all", trials, judgements))
    return table


def print_survivors(out: Console, trials: Iterable[Trial], judgements: Judgements) -> None:
    """Those without a judgement, in the order of their lines."""
    survivors = unjudged(trials, judgements)
    for mutant in survivors:
        place = f"{mutant.file}:{mutant.line}"
        change = f"{_short(mutant.before)} -> {_short(mutant.after)}"
        out.print(f"{place}  {change}", highlight=False, markup=False, soft_wrap=True)


def unjudged(trials: Iterable[Trial], judgements: Judgements) -> list[Mutant]:
    survivors = [trial.mutant for trial in trials if trial.outcome == SURVIVED]
    survivors = [mutant for mutant in survivors if not judgements.verdict(mutant)]
    return sorted(survivors, key=lambda mutant: (mutant.file, mutant.start, mutant.replacement))


def _row(name: str, trials: Sequence[Trial], judgements: Judgements) -> list[str]:
    outcomes = Counter(trial.outcome for trial in trials)
    verdicts = Counter(judgements.verdict(t.mutant) for t in trials if t.outcome == SURVIVED)
    caught = outcomes[CAUGHT] + outcomes[TIMED_OUT]
    could_be = caught + verdicts[""]
    counts = [
        len(trials),
        outcomes[CAUGHT],
        outcomes[TIMED_OUT],
        outcomes[SURVIVED],
        verdicts[EQUIVALENT],
        verdicts[COSTS_TIME],
    ]
    share = f"{100 * caught / could_be:.0f} %" if could_be else "–"
    return [name, *map(str, counts), share]


def _short(line: str) -> str:
    """Both ends of a long line: what was changed is mostly at one of them."""
    half = LINE_MAX // 2
    return line if len(line) <= LINE_MAX else f"{line[:half]} … {line[-half:]}"
