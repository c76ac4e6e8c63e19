"""Draws the state of a run at one moment, in lines that fit the terminal."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dataward.cli.complaints import visible
from dataward.cli.deadline_line import show_promise
from dataward.cli.forecast_line import show_left, show_rough
from dataward.cli.output import padded, shortened
from dataward.model.quantities import show_bytes
from dataward.plan.end_forecast import EndForecast
from dataward.reports.progress import Failure, RunningAttempt, RunProgress, TaskCounts

RUNNING_SHOWN = 5
FAILURES_SHOWN = 3
_OTHER_LINES = 8  # at most, besides the lists of running tasks and of failures
_NAME_CELLS_MIN = 8
_BAR_CELLS_MIN = 10


def picture(
    progress: RunProgress, now: float, left: EndForecast | None, width: int, height: int
) -> Group:
    """The picture for a terminal of that size; it never exceeds the width or the height."""
    counts = progress.counts()
    room = width - 1  # a full line makes some terminals add an empty one
    lists = max(height - _OTHER_LINES, 2)
    failures = progress.failures()
    failure_lines = min(len(failures), FAILURES_SHOWN, lists // 2) if failures else 0
    running_lines = min(RUNNING_SHOWN, lists - failure_lines)
    return Group(
        _bar(progress.workflow.name, counts, room),
        *_flowing(_standings(counts), room),
        *_flowing(_speeds(progress, now, left), room),
        *_flowing(_bytes(progress), room),
        *_running(progress.running(), now, room, running_lines),
        *_failures(failures, counts, room, failure_lines),
    )


def _bar(name: str, counts: TaskCounts, room: int) -> Table:
    share = 100 * counts.finished // counts.tasks
    tail = f"{counts.finished:,} of {counts.tasks:,} {share:3d}%"
    title = shortened(visible(name), max(min(24, room - len(tail) - 16), _NAME_CELLS_MIN))
    left = room - cell_len(title) - len(tail) - 2
    grid = Table.grid(padding=(0, 1, 0, 0))
    if left < _BAR_CELLS_MIN:
        grid.add_row(Text(shortened(tail, room), no_wrap=True))
        return grid
    bar = ProgressBar(total=counts.tasks, completed=counts.finished, width=left)
    grid.add_row(Text(title, "bold", no_wrap=True), bar, Text(tail, no_wrap=True))
    return grid


def _standings(counts: TaskCounts) -> Iterable[Text]:
    rows = [
        ("waiting", counts.waiting, ""),
        ("ready", counts.ready, ""),
        ("staging", counts.staging, ""),
        ("running", counts.running, "cyan"),
        ("complete", counts.complete, "green"),
        ("skipped", counts.skipped, ""),
        ("failed", counts.failed, "bold red"),
        ("removed", counts.removed, ""),
    ]
    for name, number, style in rows:
        if number or name not in ("staging", "skipped", "removed"):
            yield Text(f"{name} {number:,}", style if number else "dim")


def _speeds(progress: RunProgress, now: float, left: EndForecast | None) -> Iterable[Text]:
    yield Text(f"{progress.tasks_per_second(now):.1f} tasks/s")
    yield Text(f"{show_rough(now)} so far")
    if left is not None:
        yield Text(show_left(left), "bold")
    if progress.promised is not None:
        yield Text(show_promise(progress.promised, now))


def _bytes(progress: RunProgress) -> Iterable[Text]:
    moved, local = progress.moved_bytes, progress.local_bytes
    if moved or local:
        yield Text(f"inputs: {show_bytes(moved)} staged")
        yield Text(f"{show_bytes(local)} found locally ({local / (local + moved):.0%})")


def _running(
    attempts: Sequence[RunningAttempt], now: float, room: int, lines: int
) -> Iterable[Text]:
    """Lines of running attempts, the longest-running first, as these may be stuck."""
    shown = attempts if len(attempts) <= lines else attempts[: max(lines - 1, 0)]
    times = [show_rough(max(now - attempt.since, 0.0)) for attempt in shown]
    places = [shortened(visible(attempt.node), 12) for attempt in shown]
    beside = max(map(len, times), default=0) + max(map(cell_len, places), default=0) + 8
    cells = max(room - beside, _NAME_CELLS_MIN)
    names = [shortened(visible(attempt.task), cells) for attempt in shown]
    width = max(map(cell_len, names), default=0)
    for name, place, time in zip(names, places, times, strict=True):
        yield _line(f"  {padded(name, width)}  on {place}  {time}", room)
    if len(attempts) > len(shown):
        yield _line(f"  and {len(attempts) - len(shown):,} more running", room, "dim")


def _failures(
    failures: Sequence[Failure], counts: TaskCounts, room: int, lines: int
) -> Iterable[Text]:
    """Lines of the latest failures; all are listed when the run ends."""
    for failure in failures[len(failures) - lines :]:
        name = shortened(visible(failure.task), max(room // 2, _NAME_CELLS_MIN))
        yield _line(f"  {name} failed: {visible(failure.reason)}", room, "red")
    if counts.failed_with_parent and lines:
        more = f"  {counts.failed_with_parent:,} that depend on failed tasks will not run"
        yield _line(more, room, "red")


def _flowing(items: Iterable[Text], room: int) -> list[Text]:
    """The items on as few lines as possible, two cells apart; no item is broken."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + 2 + item.cell_len <= room:
            lines[-1].append("  ").append_text(item)
        else:
            lines.append(Text("  ", no_wrap=True).append_text(item))
    for line in lines:
        line.truncate(room)
    return lines


def _line(content: str, room: int, style: str = "") -> Text:
    return Text(shortened(content, room), style, no_wrap=True)
