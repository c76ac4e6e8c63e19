"""Draws a workflow: every task if they are few, groups of similar tasks if they are many."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.workflow import Workflow
from dataward.reports.svg import FAINT, INK, colour, document, element, text, title

TASKS_MAX = 150  # more dots than this cannot be told apart
GROUPS_MAX = 60
GROUPS_ABREAST = 10  # more in one row would make the drawing wider than a screen
BANDS = 24
TYPES_LISTED = 30
MARGIN = 24.0
LEGEND_WIDTH = 190.0
BOX_WIDTH, BOX_HEIGHT = 178.0, 46.0
BOX_GAP, BOX_DROP = 26.0, 104.0
DETOUR_WIDTH = 130.0  # of the widest curve around other boxes


def draw_workflow(workflow: Workflow) -> str:
    """The DAG as an SVG document, from top to bottom."""
    if len(workflow) <= TASKS_MAX:
        return _draw_tasks(workflow)
    return _draw_groups(workflow)


# --- one dot a task ---------------------------------------------------------------------------


def _draw_tasks(workflow: Workflow) -> str:
    rows = [level.tolist() for level in map(workflow.layers.level, range(workflow.layers.depth))]
    neighbours = {
        task: workflow.parents.row(task).tolist() + workflow.children.row(task).tolist()
        for task in range(len(workflow))
    }
    rows = untangled(rows, neighbours)
    widest = max(len(row) for row in rows)
    spacing = min(max(1500.0 / widest, 13.0), 44.0)
    radius = min(spacing * 0.36, 10.0)
    breadth = max(spacing * widest, 320.0)
    row_height = min(max(3000.0 / len(rows), 30.0), 74.0)
    place = {
        task: (
            LEGEND_WIDTH + breadth / 2 + (column - (len(row) - 1) / 2) * spacing,
            MARGIN + 40 + level * row_height,
        )
        for level, row in enumerate(rows)
        for column, task in enumerate(row)
    }
    parts = [_heading(workflow)]
    for child, parents in enumerate(workflow.parents.rows()):
        for parent in parents:
            parts.append(_curve(place[parent], place[child], radius, 1.0, 0.35))
    for task in range(len(workflow)):
        parts.append(_dot(workflow, task, place[task], radius))
    parts += _legend(workflow)
    height = MARGIN * 2 + 40 + (len(rows) - 1) * row_height + 16
    legend_height = MARGIN + 60 + 22.0 * (min(len(workflow.type_names), TYPES_LISTED) + 1)
    return document(LEGEND_WIDTH + breadth + MARGIN, max(height, legend_height), parts)


def _dot(workflow: Workflow, task: int, place: tuple[float, float], radius: float) -> str:
    view = workflow.task(task)
    words = (
        f"{view.id} ({view.name}), {show_seconds(view.runtime_seconds)}, reads "
        f"{show_bytes(int(workflow.size_bytes[workflow.inputs.row(task)].sum()))}, writes "
        f"{show_bytes(int(workflow.size_bytes[workflow.outputs.row(task)].sum()))}"
    )
    fill = colour(int(workflow.types[task]))
    return element("circle", title(words), cx=place[0], cy=place[1], r=radius, fill=fill)


def _legend(workflow: Workflow) -> list[str]:
    counts = np.bincount(workflow.types, minlength=len(workflow.type_names))
    parts = []
    for i, name in enumerate(workflow.type_names[:TYPES_LISTED]):
        y = MARGIN + 48 + 22 * i
        parts.append(element("circle", cx=MARGIN + 6, cy=y - 4, r=6, fill=colour(i)))
        parts.append(text(MARGIN + 20, y, f"{_short(name, 17)} × {counts[i]:,}"))
    if len(counts) > TYPES_LISTED:
        more = f"and {len(counts) - TYPES_LISTED:,} more types"
        parts.append(text(MARGIN + 20, MARGIN + 48 + 22 * TYPES_LISTED, more, fill=FAINT))
    return parts


# --- one box a group --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Tasks drawn as one box. ``type`` is that of the first task; ``types`` counts the types."""

    type: int
    types: int
    tasks: int
    seconds: float
    first_level: int
    last_level: int


def _draw_groups(workflow: Workflow) -> str:
    member, groups = _grouped(workflow)
    links = _links(workflow, member, len(groups))
    neighbours: dict[int, list[int]] = {i: [] for i in range(len(groups))}
    for source, target in links:
        neighbours[source].append(target)
        neighbours[target].append(source)
    by_level: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        by_level.setdefault(group.first_level, []).append(i)
    ordered = untangled([by_level[level] for level in sorted(by_level)], neighbours)
    rows = [
        row[start : start + GROUPS_ABREAST]
        for row in ordered
        for start in range(0, len(row), GROUPS_ABREAST)
    ]
    widest = max(len(row) for row in rows)
    breadth = max(widest * (BOX_WIDTH + BOX_GAP), 420.0)
    place = {
        group: (
            MARGIN + breadth / 2 + (column - (len(row) - 1) / 2) * (BOX_WIDTH + BOX_GAP),
            MARGIN + 64 + level * BOX_DROP,
        )
        for level, row in enumerate(rows)
        for column, group in enumerate(row)
    }
    parts = [_heading(workflow)]
    for (source, target), count in links.items():
        if source != target:
            parts.append(_link(place[source], place[target], count))
    for i, group in enumerate(groups):
        inner = links.get((i, i), 0)
        parts.append(_box(workflow, group, place[i], inner))
    height = MARGIN * 2 + 64 + (len(rows) - 1) * BOX_DROP + BOX_HEIGHT
    return document(breadth + DETOUR_WIDTH + MARGIN * 2, height, parts)


def _grouped(workflow: Workflow) -> tuple[np.ndarray, list[_Group]]:
    """Each task's group, and the groups: by type and level; if too many, by type; else by depth."""
    levels = workflow.layers.level_of.astype(np.int64)
    types = workflow.types.astype(np.int64)
    keys = types * workflow.layers.depth + levels
    if np.unique(keys).size > GROUPS_MAX:
        keys = types
    if len(workflow.type_names) > GROUPS_MAX:
        keys = levels * min(BANDS, workflow.layers.depth) // workflow.layers.depth
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    tasks = np.bincount(member)
    kinds = np.bincount(
        np.unique(member * len(workflow.type_names) + types) // len(workflow.type_names)
    )
    seconds = np.bincount(member, weights=workflow.runtime_seconds)
    lowest = np.full(len(first), workflow.layers.depth)
    highest = np.zeros(len(first), dtype=np.int64)
    np.minimum.at(lowest, member, levels)
    np.maximum.at(highest, member, levels)
    groups = [
        _Group(
            int(workflow.types[t]),
            int(kinds[i]),
            int(tasks[i]),
            float(seconds[i]),
            int(lowest[i]),
            int(highest[i]),
        )
        for i, t in enumerate(first.tolist())
    ]
    return member, groups


def _links(workflow: Workflow, member: np.ndarray, count: int) -> dict[tuple[int, int], int]:
    sources = member[workflow.parents.targets].astype(np.int64)
    targets = member[workflow.parents.owners()]
    pairs, times = np.unique(sources * count + targets, return_counts=True)
    return {
        (pair // count, pair % count): edges
        for pair, edges in zip(pairs.tolist(), times.tolist(), strict=True)
    }


def _box(workflow: Workflow, group: _Group, place: tuple[float, float], inner: int) -> str:
    x, y = place
    name = workflow.type_names[group.type] if group.types == 1 else f"{group.types:,} types"
    levels = f"level {group.first_level}"
    if group.last_level > group.first_level:
        levels = f"levels {group.first_level} to {group.last_level}"
    within = f", {inner:,} edges within" if inner else ""
    words = f"{name}: {group.tasks:,} tasks, {show_seconds(group.seconds)} in all, {levels}{within}"
    mean = show_seconds(group.seconds / group.tasks)
    frame = element(
        "rect",
        x=x - BOX_WIDTH / 2,
        y=y - BOX_HEIGHT / 2,
        width=BOX_WIDTH,
        height=BOX_HEIGHT,
        rx=8,
        fill="white",
        stroke=colour(group.type),
        stroke_width=2.5,
    )
    heading = text(x, y - 4, _short(name, 22), text_anchor="middle", font_weight=600)
    count = f"× {group.tasks:,}, {mean} each"
    detail = text(x, y + 13, count, text_anchor="middle", font_size=11, fill=FAINT)
    return element("g", title(words), frame, heading, detail)


def _link(source: tuple[float, float], target: tuple[float, float], count: int) -> str:
    """A line down, or around the side if boxes of the same column may be in the way."""
    (x0, y0), (x1, y1) = source, target
    width = 1.0 + 1.4 * log10(count)
    if y1 - y0 == BOX_DROP or (y1 > y0 and abs(x1 - x0) >= BOX_WIDTH):
        line = _curve(source, target, BOX_HEIGHT / 2, width, 0.45)
        x, y = x0 + 0.3 * (x1 - x0), y0 + BOX_HEIGHT / 2 + 0.35 * (y1 - y0 - BOX_HEIGHT)
    else:
        x0, x1 = x0 + BOX_WIDTH / 2, x1 + BOX_WIDTH / 2
        bow = min(30.0 + abs(y1 - y0) / 8, DETOUR_WIDTH)
        bent = (
            f"M{x0:.1f},{y0:.1f} C{x0 + bow:.1f},{y0:.1f} {x1 + bow:.1f},{y1:.1f} {x1:.1f},{y1:.1f}"
        )
        line = _stroke(bent, width, 0.45)
        x, y = (x0 + x1) / 2 + 0.75 * bow, (y0 + y1) / 2
    halo = {"stroke": "white", "stroke_width": 3, "paint_order": "stroke"}
    return line + text(x + 6, y + 4, f"{count:,}", font_size=10, fill=FAINT, **halo)


# --- shared -----------------------------------------------------------------------------------


def untangled(
    rows: Sequence[Sequence[int]], neighbours: dict[int, list[int]], sweeps: int = 6
) -> list[list[int]]:
    """The rows, each sorted by the mean place of its neighbours (the barycentre heuristic).

    Equal means keep their order, so that the same workflow is always drawn the same way.
    """
    ordered = [list(row) for row in rows]
    place: dict[Hashable, float] = {}
    for row in ordered:
        _spread(row, place)
    for sweep in range(sweeps):
        for row in ordered if sweep % 2 == 0 else reversed(ordered):
            means = {
                item: sum(place[n] for n in neighbours[item]) / len(neighbours[item])
                if neighbours[item]
                else place[item]
                for item in row
            }
            row.sort(key=lambda item: (means[item], place[item]))
            _spread(row, place)
    return ordered


def _spread(row: Sequence[int], place: dict[Hashable, float]) -> None:
    for column, item in enumerate(row):
        place[item] = column - (len(row) - 1) / 2


def _curve(
    source: tuple[float, float],
    target: tuple[float, float],
    clearance: float,
    width: float,
    opacity: float,
) -> str:
    (x0, y0), (x1, y1) = source, target
    y0, y1 = y0 + clearance, y1 - clearance
    bend = (y1 - y0) / 2
    path = (
        f"M{x0:.1f},{y0:.1f} C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}"
    )
    return _stroke(path, width, opacity)


def _stroke(path: str, width: float, opacity: float) -> str:
    return element("path", d=path, fill="none", stroke=INK, stroke_width=width, opacity=opacity)


def _heading(workflow: Workflow) -> str:
    words = (
        f"{len(workflow):,} tasks of {len(workflow.type_names):,} types, "
        f"{len(workflow.file_ids):,} files, {workflow.edge_count:,} edges"
    )
    return text(
        MARGIN, MARGIN + 2, _short(workflow.name, 60), font_size=16, font_weight=600
    ) + text(MARGIN, MARGIN + 20, words, fill=FAINT)


def _short(words: str, length: int) -> str:
    return words if len(words) <= length else words[: length - 1] + "…"
