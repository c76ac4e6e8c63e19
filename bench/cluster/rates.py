"""What a task costs: with more tasks, more store servers and more nodes."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.cluster.lab import Lab, Spent, lab_of, seconds_of
from dataward import Executor, WorkflowBuilder

WARM_UP_TASKS = 200


class Setting(NamedTuple):
    nodes: int
    shards: int
    tasks: int


def settings(few: int, many: int) -> list[Setting]:
    """Ten times the tasks, twice the nodes, three times the servers."""
    return [
        Setting(2, 1, few),
        Setting(2, 1, many),
        Setting(4, 1, few),
        Setting(2, 3, few),
        Setting(4, 3, few),
    ]


def commands(count: int) -> WorkflowBuilder:
    wf = WorkflowBuilder("commands")
    for number in range(count):
        wf.task(f"t{number}", command=("true",))
    return wf


def run_commands(lab: Lab, count: int) -> float:
    """The seconds from submission to the last commit."""
    facts = asyncio.run(lab.run(commands(count)))
    assert facts.counts == {"complete": count}, facts
    return seconds_of(facts)


def noop(x: int) -> int:
    return x


def call_functions(lab: Lab, count: int) -> float:
    with Executor(access=lab.access_file) as executor:
        for future in [executor.submit(noop, i) for i in range(WARM_UP_TASKS)]:
            future.result()
        began = time.perf_counter()
        results = [future.result() for future in [executor.submit(noop, i) for i in range(count)]]
        seconds = time.perf_counter() - began
    assert sum(results) == count * (count - 1) // 2
    return seconds


def show_rates(out: Console, quick: bool) -> None:
    few, many = (1_000, 10_000) if quick else (10_000, 100_000)
    for name, work in (("commands `true`", run_commands), ("no-op functions", call_functions)):
        table = _table(name)
        for setting in settings(few, many):
            _add_row(table, setting, *_measured(setting, work))
        out.print(table)


def _measured(setting: Setting, work: Callable[[Lab, int], float]) -> tuple[float, Spent]:
    with lab_of(setting.nodes, shards=setting.shards) as lab:
        work(lab, WARM_UP_TASKS)
        before = lab.spent()
        seconds = work(lab, setting.tasks)
        return seconds, lab.spent().since(before)


def _table(name: str) -> Table:
    table = Table(title=f"{name}, nodes of one slot; each task's share", title_justify="left")
    for column in (
        "tasks",
        "nodes",
        "servers",
        "a second",
        "store calls",
        "µs in functions by the clock",
        "server CPU µs",
        "messages",
        "requests",
        "all CPU µs",
    ):
        table.add_column(column, justify="right")
    return table


def _add_row(table: Table, setting: Setting, seconds: float, spent: Spent) -> None:
    tasks = setting.tasks
    table.add_row(
        f"{tasks:,}",
        f"{setting.nodes}",
        f"{setting.shards}",
        f"{tasks / seconds:,.0f}",
        f"{spent.store_calls / tasks:.3f}",
        f"{1e6 * spent.function_seconds / tasks:.1f}",
        f"{1e6 * spent.server_seconds / tasks:.1f}",
        f"{spent.messages / tasks:.3f}",
        f"{spent.letters / tasks:.3f}",
        f"{1e6 * spent.cpu_seconds / tasks:,.0f}",
    )
