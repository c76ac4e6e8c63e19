"""Draws several runs of one workflow, one above the other, on one time axis."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dataward.model.events import Event
from dataward.model.quantities import show_seconds
from dataward.reports.attempts import ONE_CORE_EACH, CoresOf
from dataward.reports.chart_frame import (
    COLOURS,
    LEFT,
    MARGIN,
    PALE,
    PLOT,
    WIDTH,
    counted,
    key,
    marks,
    percent,
    shorten,
)
from dataward.reports.core_time import Use
from dataward.reports.drawn_run import DrawnRun, gathered, use_by_row
from dataward.reports.stacked_areas import stacked
from dataward.reports.svg import FAINT, INK, document, element, text, title

TOP = 116.0
HEIGHT = 46.0  # of one run
STEP = 74.0  # from one run to the next
SLICES = int(PLOT / 2)


def draw_comparison(runs: Sequence[Iterable[Event]], cores_of: CoresOf = ONE_CORE_EACH) -> str:
    """Runs as an SVG document, in the order given: for each, how the cores were used over time."""
    drawn = [gathered(events, cores_of) for events in runs]
    longest = max(run.end_seconds for run in drawn)
    parts = _heading(drawn)
    for number, run in enumerate(drawn):
        parts += _strip(replace(run, end_seconds=longest), TOP + number * STEP)
    bottom = TOP + (len(drawn) - 1) * STEP + HEIGHT
    axis = marks(longest, TOP, bottom, under=True)
    return document(WIDTH, bottom + 40, [*parts, *axis])


def _heading(runs: Sequence[DrawnRun]) -> list[str]:
    first = runs[0].summary
    where = f"{counted(first.nodes, 'node')} with {counted(first.cores, 'core')}, seed {first.seed}"
    seen = [use for use in Use if any(_is_seen(run, use) for run in runs)]
    colours = [(use.value, COLOURS[use]) for use in seen] + [("idle", PALE)]
    return [
        text(MARGIN, 32, shorten(first.workflow, 70), font_size=18, font_weight=600),
        text(MARGIN, 51, f"{counted(first.tasks, 'task')} on {where}", fill=FAINT),
        *key(colours, MARGIN, 76),
    ]


def _is_seen(run: DrawnRun, use: Use) -> bool:
    return bool(use_by_row(run, [[*run.node_cores]], 1).spent[use].any())


def _strip(run: DrawnRun, top: float) -> list[str]:
    """One run: its name and figures, the use of its cores, and a line where it ended."""
    summary = run.summary
    use = use_by_row(run, [[*run.node_cores]], SLICES)
    figures = f"{show_seconds(summary.makespan_seconds)}, {percent(summary.utilisation)} useful"
    words = f"{figures}, {percent(summary.locality)} of input bytes at hand"
    end = run.x(summary.makespan_seconds)
    line = element("line", x1=end, y1=top, x2=end, y2=top + HEIGHT, stroke=INK, stroke_width=1.5)
    name = text(LEFT, top - 7, shorten(summary.strategy, 40), font_size=13, font_weight=600)
    return [
        name,
        text(LEFT + 190, top - 7, words, font_size=11, fill=FAINT),
        element("g", title(f"{summary.strategy}: {words}"), *stacked(use, top, HEIGHT)),
        line,
    ]
