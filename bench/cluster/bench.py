"""The parts of the bench, one after another."""

import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from bench.cluster.data_contest import show_data
from bench.cluster.peer_contest import show_calls
from bench.cluster.rates import show_rates
from bench.cluster.recovery import show_idle, show_recovery

PARTS: dict[str, Callable[[Console, bool], None]] = {
    "calls": show_calls,
    "data": show_data,
    "rates": show_rates,
    "recovery": show_recovery,
    "idle": show_idle,
}


def run(out: Console, *, quick: bool = False, parts: Sequence[str] = tuple(PARTS)) -> None:
    for part in parts:
        print(f"- {part}", file=sys.stderr, flush=True)
        PARTS[part](out, quick)
