"""Draws a run: what each node did and when, and what the cores' time was used for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.quantities import show_bytes, show_seconds
from dataward.reports.attempts import (
    ONE_CORE_EACH,
    CoresOf,
)
from dataward.reports.chart_frame import (
    BAR_COLOURS,
    COLOURS,
    LEFT,
    MARGIN,
    PALE,
    PLOT,
    RIGHT,
    STAGE_IN,
    STAGE_OUT,
    WIDTH,
    counted,
    cross,
    key,
    marks,
    percent,
    row_names,
    rule,
    shorten,
)
from dataward.reports.core_time import CoreTime, Outage, Use, use_of
from dataward.reports.drawn_run import DrawnRun, gathered, use_by_row
from dataward.reports.gantt_bars import Bar, Span, lanes_of, merged, pack
from dataward.reports.run_summary import RunSummary
from dataward.reports.stacked_areas import stacked
from dataward.reports.svg import FAINT, document, element, text, title

NODES_MAX = 64  # with more nodes, a row stands for several
ROWS_MAX = 50
SLICES = int(PLOT / 3)  # of time, in the strips and the curve
LANES_HEIGHT = 820.0  # of all nodes together, if possible
CORE_HEIGHT_MIN = 2.2
CORE_HEIGHT_MAX = 13.0
THIN = 0.38  # of a core's height: a lane of stage-in or stage-out
GAP = 0.7  # of a core's height, between nodes
TITLES_MAX = 4000  # only this many bars, the widest, have a text under the pointer


def draw_run(events: Iterable[Event], cores_of: CoresOf = ONE_CORE_EACH) -> str:
    """A run as an SVG document: nodes over time, and under them the use of all cores.

    Few nodes are drawn core by core, with stage-in and stage-out under the cores. Many nodes, or
    nodes with very many tasks, are drawn as strips that show the share of each use.
    """
    run = gathered(events, cores_of)
    if not run.node_cores:
        return document(WIDTH, 80.0, [text(MARGIN, 40, "The event list names no node.")])
    rows = _rows([*run.node_cores])
    by_bars = len(rows) == len(run.node_cores) and _room_for_bars(run)
    use = use_by_row(run, rows, SLICES)
    heading, top = _heading(run, use_by_row(run, rows, 1), by_bars=by_bars)
    lanes, bottom = _bars(run, top) if by_bars else _strips(run, rows, use, top)
    curve, end = _curve(run, use.over_all_rows(), bottom + 34)
    return document(WIDTH, end, [*heading, *lanes, *marks(run.end_seconds, top, bottom), *curve])


def _rows(nodes: Sequence[NodeId]) -> list[Sequence[NodeId]]:
    """The nodes of each row: one, or several neighbours if there are too many nodes."""
    size = 1 if len(nodes) <= NODES_MAX else ceil(len(nodes) / ROWS_MAX)
    return [nodes[i : i + size] for i in range(0, len(nodes), size)]


def _room_for_bars(run: DrawnRun) -> bool:
    cores = sum(run.node_cores.values())
    return cores * CORE_HEIGHT_MIN <= LANES_HEIGHT and len(run.attempts) <= cores * PLOT


# --- heading ----------------------------------------------------------------------------------


def _heading(run: DrawnRun, use: CoreTime, *, by_bars: bool) -> tuple[list[str], float]:
    """The title, the figures, and a bar of all core time by use, which is also the legend."""
    all_rows = use.over_all_rows()
    parts = [
        text(MARGIN, 32, shorten(run.summary.workflow, 70), font_size=18, font_weight=600),
        text(MARGIN, 51, _circumstances(run.summary), fill=FAINT),
    ]
    for i, (figure, meaning) in enumerate(_figures(run.summary)):
        x = MARGIN + i * 170
        parts.append(text(x, 86, figure, font_size=20, font_weight=600))
        parts.append(text(x, 102, meaning, font_size=11, fill=FAINT))
    parts += _share_bar({u: float(all_rows.shares(u)[0, 0]) for u in Use}, 118.0)
    y = 172.0
    if by_bars:
        moves = [(kind, BAR_COLOURS[kind]) for kind in (STAGE_IN, STAGE_OUT)]
        parts += key(moves, MARGIN + 160, y)
        parts.append(text(MARGIN, y, "thin, under a node's cores", font_size=11, fill=FAINT))
    else:
        words = "each row: the share of its cores that did what, from 0 to 100%"
        parts.append(text(MARGIN, y, words, font_size=11, fill=FAINT))
    if run.outages:
        parts.append(cross(RIGHT - 44, y - 4))
        parts.append(text(RIGHT - 36, y, "crash", font_size=11))
    return parts, 208.0


def _circumstances(summary: RunSummary) -> str:
    ends = f"{summary.complete:,} of {summary.tasks:,} tasks complete"
    if summary.failed:
        ends += f", {summary.failed:,} failed"
    if summary.removed:
        ends += f", {summary.removed:,} removed"
    if not summary.ended:
        ends += "; the list breaks off before the end of the run"
    return (
        f"{shorten(summary.strategy, 40)} on {counted(summary.nodes, 'node')} with "
        f"{counted(summary.cores, 'core')}, seed {summary.seed}; {ends}"
    )


def _figures(summary: RunSummary) -> list[tuple[str, str]]:
    beaten = f"{counted(summary.replicas_wasted, 'attempt')} beaten"
    if summary.crashed_attempts + summary.failed_attempts:
        beaten += f", {summary.crashed_attempts + summary.failed_attempts:,} broken"
    return [
        (show_seconds(summary.makespan_seconds), "makespan" if summary.ended else "so far"),
        (percent(summary.utilisation), "utilisation: useful running"),
        (percent(summary.locality), "locality: input bytes at hand"),
        (show_bytes(summary.bytes_moved), f"moved, {show_bytes(summary.bytes_from_origin)} from"
         " origin"),
        (show_seconds(summary.wasted_seconds), f"core time wasted: {beaten}"),
    ]  # fmt: skip


def _share_bar(shares: dict[Use, float], y: float) -> list[str]:
    height, x, width = 16.0, MARGIN, RIGHT - MARGIN
    parts = [element("rect", x=x, y=y, width=width, height=height, fill=PALE)]
    named = []
    for use, share in shares.items():
        if share > 0 or use is Use.USEFUL:
            parts.append(
                element("rect", x=x, y=y, width=width * share, height=height, fill=COLOURS[use])
            )
            x += width * share
            named.append((f"{use.value} {percent(share)}", COLOURS[use]))
    named.append((f"idle {percent(max(1 - sum(shares.values()), 0.0))}", PALE))
    return parts + key(named, MARGIN, y + height + 18)


# --- few nodes: every core --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lane:
    """One node's part of the drawing: its cores, then thinner lanes of stage-in and stage-out."""

    node: NodeId
    cores: int
    running: list[Bar]
    moving: list[Bar]
    outages: list[Outage]

    @property
    def units(self) -> float:
        """The height, where a core's is 1."""
        return self.cores + THIN * lanes_of(self.moving) + GAP


def _bars(run: DrawnRun, top: float) -> tuple[list[str], float]:
    lanes = _lanes(run)
    core = LANES_HEIGHT / sum(lane.units for lane in lanes)
    core = min(max(core, CORE_HEIGHT_MIN), CORE_HEIGHT_MAX)
    widest = sorted(
        (bar.stop - bar.start for lane in lanes for bar in (*lane.running, *lane.moving)),
        reverse=True,
    )
    told_seconds = widest[TITLES_MAX] if len(widest) > TITLES_MAX else 0.0
    tops = [top]
    for lane in lanes:
        tops.append(tops[-1] + core * lane.units)
    middles = [y + core * lane.cores / 2 for lane, y in zip(lanes, tops, strict=False)]
    parts = row_names([lane.node for lane in lanes], middles)
    painter = _Painter(run, told_seconds)
    for lane, y in zip(lanes, tops, strict=False):
        height = core * lane.cores
        parts.append(element("rect", x=LEFT, y=y, width=PLOT, height=height, fill=PALE))
        parts += [_outage(run, outage, y, height) for outage in lane.outages]
        painter.paint(lane.running, y, core)
        painter.paint(lane.moving, y + height, core * THIN)
    crosses = [
        cross(run.x(outage.since), y)
        for lane, y in zip(lanes, middles, strict=True)
        for outage in lane.outages
    ]
    return [*parts, *painter.groups(), *crosses], tops[-1] - core * GAP


def _outage(run: DrawnRun, outage: Outage, top: float, height: float) -> str:
    x, stop = run.x(outage.since), run.x(outage.until)
    story = title(f"{outage.node} was down for {show_seconds(outage.until - outage.since)}")
    fill = COLOURS[Use.DOWN]
    return element("rect", story, x=x, y=top, width=stop - x, height=height, fill=fill)


def _lanes(run: DrawnRun) -> list[_Lane]:
    running: dict[NodeId, list[Span]] = {node: [] for node in run.node_cores}
    moving: dict[NodeId, list[Span]] = {node: [] for node in run.node_cores}
    outages: dict[NodeId, list[Outage]] = {node: [] for node in run.node_cores}
    for outage in run.outages:
        outages[outage.node].append(outage)
    shortest = run.end_seconds / PLOT / 2
    for a in run.attempts:
        if a.running is not None:
            amount = min(run.cores_of.get(a.task, 1), run.node_cores[a.node])
            stop = a.running + a.running_seconds
            running[a.node].append((a.running, stop, amount, use_of(a).value, a))
        # Every bar is drawn at least half a pixel wide, so shorter ones would look too long.
        if a.stage_in_seconds > shortest:
            moving[a.node].append((a.began, a.began + a.stage_in_seconds, 1, STAGE_IN, a))
        if a.stage_out is not None and a.stage_out_seconds > shortest:
            moving[a.node].append((a.stage_out, a.ended, 1, STAGE_OUT, a))
    lanes = []
    for node, cores in run.node_cores.items():
        bars = pack(running[node])
        lanes.append(
            _Lane(
                node,
                max(cores, lanes_of(bars)),
                merged(bars, shortest),
                merged(pack(moving[node]), shortest),
                outages[node],
            )
        )
    return lanes


class _Painter:
    """Collects bars: one group per colour, and in it one path for all bars without text."""

    def __init__(self, run: DrawnRun, told_seconds: float) -> None:
        self._run = run
        self._told_seconds = told_seconds
        self._silent: dict[str, list[str]] = {}
        self._told: dict[str, list[str]] = {}

    def paint(self, bars: Sequence[Bar], top: float, lane: float) -> None:
        for bar in bars:
            x, stop = self._run.x(bar.start), self._run.x(bar.stop)
            width = max(stop - x, 0.5)
            if width > 2:
                width -= 0.4  # so that one task can be told from the next
            seam = 0.15 * lane if lane < 4 else 0.6
            y, height = top + bar.first_lane * lane, bar.lanes * lane - seam
            path = f"M{x:.1f},{y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
            if bar.stop - bar.start > self._told_seconds:
                words = element("path", title(_story(bar)), d=path)
                self._told.setdefault(bar.kind, []).append(words)
            else:
                self._silent.setdefault(bar.kind, []).append(path)

    def groups(self) -> list[str]:
        return [
            element(
                "g",
                *([element("path", d="".join(self._silent[kind]))] if kind in self._silent else ()),
                *self._told.get(kind, ()),
                fill=colour,
            )
            for kind, colour in BAR_COLOURS.items()
            if kind in self._silent or kind in self._told
        ]


def _story(bar: Bar) -> str:
    a = bar.attempt
    words = f"{shorten(a.task, 60)} on {a.node}{', a replica' if a.replica else ''}: {bar.kind}"
    steps = [
        ("stage-in", a.stage_in_seconds),
        ("waiting for a core", a.waiting_seconds),
        ("running", a.running_seconds),
        ("stage-out", a.stage_out_seconds),
    ]
    lived = ", ".join(f"{step} {show_seconds(seconds)}" for step, seconds in steps if seconds)
    reason = f" ({shorten(a.reason, 80)})" if a.reason else ""
    return f"{words}; began at {show_seconds(a.began)}, {lived}; {a.outcome.value}{reason}"


# --- many nodes: shares of rows of them -------------------------------------------------------


def _strips(
    run: DrawnRun, rows: Sequence[Sequence[NodeId]], use: CoreTime, top: float
) -> tuple[list[str], float]:
    height = min(max(LANES_HEIGHT / len(rows), 14.0), 48.0)
    tops = [top + i * height for i in range(len(rows) + 1)]
    names = [_row_name(row) for row in rows]
    parts = row_names(names, [y + height / 2 for y in tops[:-1]])
    row_of = {node: i for i, row in enumerate(rows) for node in row}
    for i, row in enumerate(rows):
        strip = CoreTime({u: use.spent[u][i : i + 1] for u in Use}, use.there_were[i : i + 1])
        drawn = stacked(strip, tops[i], height - 3)
        parts.append(element("g", title(_row_story(names[i], len(row), strip)), *drawn))
    parts += [
        cross(run.x(outage.since), tops[row_of[outage.node]] + height / 2) for outage in run.outages
    ]
    return parts, tops[-1] - 3


def _row_name(row: Sequence[NodeId]) -> str:
    name = row[0] if len(row) == 1 else f"{row[0]} – {row[-1]}"
    return name if len(name) <= 13 or len(row) == 1 else f"{shorten(row[0], 8)} +{len(row) - 1}"


def _row_story(name: str, nodes: int, strip: CoreTime) -> str:
    whole = strip.there_were.sum()
    shares = ", ".join(
        f"{use.value} {percent(float(seconds.sum() / whole))}"
        for use, seconds in strip.spent.items()
        if seconds.sum() > 0
    )
    return f"{name} ({counted(nodes, 'node')}): {shares or 'idle'}"


# --- all cores together -----------------------------------------------------------------------


def _curve(run: DrawnRun, use: CoreTime, top: float) -> tuple[list[str], float]:
    height = 150.0
    parts = [text(LEFT, top - 8, "All cores", font_size=12, font_weight=600)]
    parts += stacked(use, top, height)
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        parts.append(rule(LEFT, y, RIGHT, y))
        parts.append(
            text(LEFT - 8, y + 4, percent(share), font_size=11, fill=FAINT, text_anchor="end")
        )
    return [*parts, *marks(run.end_seconds, top, top + height, under=True)], top + height + 40
