"""Simulates a workflow with one strategy, and prints the results of several."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dataward.api.report import RunReport
from dataward.api.simulate import simulated
from dataward.cli.best_line import best_sentence
from dataward.cli.complaints import visible
from dataward.cli.deadline_line import outcome_as_json, show_outcome, show_renewed
from dataward.cli.forecast_line import forecast_as_json, show_forecast_of_run
from dataward.cli.output import counted, stderr_console, stdout_console, write_text
from dataward.cli.tables import print_table
from dataward.model.deadline import WantedDeadline
from dataward.model.events import Emit, Event, TaskFinished
from dataward.model.platform import Platform
from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.states import TaskState
from dataward.model.workflow import Workflow
from dataward.plan.end_forecast import EndForecast
from dataward.plan.estimates import EXACT, Estimates
from dataward.reports.comparison_svg import draw_comparison
from dataward.reports.event_file import EventFileWriter
from dataward.reports.gantt_svg import draw_run
from dataward.reports.run_summary import RunSummary
from dataward.sim.simulation import Removal
from dataward.strategies.strategy import Strategy

COLUMNS_MAX = 4  # strategies that are columns of a table; more of them are its rows


def shown_simulation(
    workflow: Workflow,
    platform: Platform,
    strategy: Strategy,
    *,
    seed: int,
    faults: str,
    retries: int,
    estimates: Estimates,
    removals: Sequence[Removal],
    events: Path | None,
    keep: bool,
    deadline: WantedDeadline | None = None,
) -> tuple[RunReport, int]:
    """One simulated run, shown while it goes on; and how many events it had.

    The report has the events themselves only if they are to be kept. Tasks that could not be
    removed are named on stderr.
    """
    kept: list[Event] = []
    counter = _Counter()
    unremoved = _Unremoved(removals)
    sinks: list[Emit] = [counter.add, unremoved.add]
    with ExitStack() as stack:
        if events is not None:
            sinks.append(stack.enter_context(EventFileWriter(events)).add)
        if keep:
            sinks.append(kept.append)
        sinks.append(stack.enter_context(_Bar(strategy.name, len(workflow))).add)
        report = simulated(
            workflow,
            platform,
            strategy,
            seed=seed,
            faults=faults,
            retries=retries,
            estimates=estimates,
            removals=removals,
            sinks=sinks,
            events=kept,
            deadline=deadline,
        )
    unremoved.tell(strategy.name)
    return report, counter.count


def draw_results(plot: Path, reports: Sequence[RunReport]) -> None:
    """Draw one run, or several one above the other."""
    runs = [report.events() for report in reports]
    write_text(plot, draw_run(runs[0]) if len(runs) == 1 else draw_comparison(runs))


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, event: Event) -> None:
        self.count += 1


class _Unremoved:
    """Finds removals that came too late."""

    def __init__(self, removals: Sequence[Removal]) -> None:
        self._left = {removal.task: removal.at_seconds for removal in removals}

    def add(self, event: Event) -> None:
        if isinstance(event, TaskFinished) and event.state is TaskState.REMOVED:
            self._left.pop(event.task, None)

    def tell(self, strategy: str) -> None:
        for task, at_seconds in self._left.items():
            late = f"{visible(task)} had ended by {show_seconds(at_seconds)}"
            stderr_console().print(f"{strategy}: {late}; it was not removed", soft_wrap=True)


class _Bar:
    """A progress bar of finished tasks, if stderr is a terminal."""

    def __init__(self, name: str, total: int) -> None:
        console = stderr_console()
        self._progress = Progress(
            TextColumn(name),
            BarColumn(),
            TextColumn("{task.completed:,} of {task.total:,} tasks"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=total)
        self._finished = 0

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, event: Event) -> None:
        if isinstance(event, TaskFinished):
            self._finished += 1
            if self._finished % 16 == 0:
                self._progress.update(self._task, completed=self._finished)


def result_as_json(
    report: RunReport, bound: float, count: int, wall: float, estimates: Estimates
) -> dict[str, Any]:
    """The result for programs: first the keys that other programs rely on, then the rest."""
    summary = report.summary
    return {
        "strategy": summary.strategy,
        "nodes": summary.nodes,
        "makespan_seconds": summary.makespan_seconds,
        "lower_bound_seconds": bound,
        "utilisation": summary.utilisation,
        "bytes_moved": summary.bytes_moved,
        "locality": summary.locality,
        "replicas_run": summary.replicas_run,
        "replicas_wasted": summary.replicas_wasted,
        "messages": summary.messages + summary.store_calls,
        "events": count,
        "wall_seconds": wall,
        "seed": summary.seed,
        "estimates": str(estimates),
        "forecast": forecast_as_json(report.forecast),
        "deadline": outcome_as_json(summary),
        "answer": report.answer.as_json() if report.answer is not None else None,
        "cores": summary.cores,
        "tasks": summary.tasks,
        "complete": summary.complete,
        "failed": summary.failed,
        "removed": summary.removed,
        "speed_up": _ratio(summary.useful_seconds, summary.makespan_seconds),
        "bytes_from_origin": summary.bytes_from_origin,
        "wasted_seconds": summary.wasted_seconds,
        "given": summary.given,
        "taken_over": summary.taken_over,
        "reopened": summary.reopened,
        "crashes": summary.crashes,
        "node_messages": summary.messages,
        "store_calls": summary.store_calls,
    }


def print_results(
    workflow: Workflow,
    platform: Platform,
    seed: int,
    faults: str,
    estimates: Estimates,
    bound: float,
    reports: Sequence[RunReport],
) -> None:
    console = stdout_console()
    results = [report.summary for report in reports]
    machines = f"{counted(len(platform.machines), 'node')}, {counted(platform.cores, 'core')}"
    console.print(
        f"{workflow.name}: {counted(len(workflow), 'task')} on {machines}; "
        f"seed {seed}, faults {faults}, estimates {estimates}",
        style="bold",
        soft_wrap=True,
    )
    for report in reports:
        if report.answer is not None:
            console.print(report.answer.sentence, soft_wrap=True)
    rows: list[tuple[str, Callable[[RunSummary], str]]] = [
        ("makespan", lambda r: show_seconds(r.makespan_seconds)),
        ("over the lower bound", lambda r: _over_bound(r, bound)),
        ("speed-up", lambda r: _times(r.useful_seconds, r.makespan_seconds, ".1f")),
        ("utilisation", lambda r: f"{r.utilisation:.1%}"),
        ("bytes moved", lambda r: show_bytes(r.bytes_moved)),
        ("  of them from the edge", lambda r: show_bytes(r.bytes_from_origin)),
        ("input bytes found locally", lambda r: f"{r.locality:.1%}"),
        ("tasks given", lambda r: f"{r.given:,}"),
        ("replicas run", lambda r: f"{r.replicas_run:,}"),
        ("runs wasted", lambda r: f"{r.replicas_wasted:,}"),
        ("time wasted", lambda r: show_seconds(r.wasted_seconds)),
        ("messages between nodes", lambda r: f"{r.messages:,}"),
        ("calls to the store", lambda r: f"{r.store_calls:,}"),
    ]
    if any(r.crashes or r.taken_over or r.reopened for r in results):
        rows += [
            ("crashes", lambda r: f"{r.crashes:,}"),
            ("tasks taken over", lambda r: f"{r.taken_over:,}"),
            ("tasks run again for lost data", lambda r: f"{r.reopened:,}"),
        ]
    if any(r.promised for r in results):
        rows.insert(1, ("deadline", show_outcome))
    if any(r.failed for r in results):
        rows.append(("tasks failed", lambda r: f"{r.failed:,}"))
    if any(r.removed for r in results):
        rows.append(("tasks removed", lambda r: f"{r.removed:,}"))
    for promised in [r.promised for r in results if r.promised and r.promised.why]:
        at = show_seconds(promised.at)
        console.print(f"after {at}, {visible(show_renewed(promised))}", soft_wrap=True)
    if len(results) <= COLUMNS_MAX:
        headings = ("", *(result.strategy for result in results))
        print_table(headings, [(name, *map(show, results)) for name, show in rows])
    else:
        names = [name.strip() for name, _ in rows]
        cells = [(r.strategy, *(show(r) for _, show in rows)) for r in results]
        print_table(("strategy", *names), cells, spare=[*reversed(names[2:])])
    whole = all(r.complete == r.tasks for r in results)
    schedule = "No schedule" if whole else "No schedule of all tasks"
    console.print(f"{schedule} can beat {show_seconds(bound)} here.", soft_wrap=True)
    # A run in which tasks failed may have ended sooner for that.
    most = max(r.complete for r in results)
    done = {r.strategy: r.makespan_seconds for r in results if r.complete == most}
    if len(done) > 1:
        console.print(best_sentence(done), soft_wrap=True)
    if estimates != EXACT:
        console.print(_forecast_sentence(reports[0].forecast), soft_wrap=True)


def _forecast_sentence(forecast: EndForecast | None) -> str:
    """What the estimates made one expect, without knowing the strategy."""
    if forecast is None:
        return "Too little was known beforehand to say when it would end."
    return f"By the estimates it should have taken {show_forecast_of_run(forecast)}."


def _over_bound(result: RunSummary, bound: float) -> str:
    """How many times the bound a run took; the bound says nothing of a part of the tasks."""
    if result.complete < result.tasks:
        return "-"
    return _times(result.makespan_seconds, bound, ".2f", " x")


def _ratio(one: float, other: float) -> float | None:
    """None if there is no such ratio: a workflow whose tasks take no time has a bound of 0."""
    return one / other if other else None


def _times(one: float, other: float, places: str, unit: str = "") -> str:
    ratio = _ratio(one, other)
    return "-" if ratio is None else f"{ratio:{places}}{unit}"
