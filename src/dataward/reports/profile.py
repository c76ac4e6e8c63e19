"""The shape of a workflow as a few lines of text: how many tasks each level has."""

from dataclasses import dataclass

import numpy as np

from dataward.model.workflow import Workflow

ROWS_MAX = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One bar of the picture: a level, or several successive levels if there are too many."""

    first_level: int
    last_level: int
    tasks: float
    types: str


def profile_rows(workflow: Workflow, rows_max: int = ROWS_MAX) -> list[ProfileRow]:
    """Tasks per level; with more than ``rows_max`` levels, averages over successive levels."""
    layers = workflow.layers
    step = -(-layers.depth // rows_max)
    rows = []
    for first in range(0, layers.depth, step):
        last = min(first + step, layers.depth) - 1
        tasks = layers.order[layers.starts[first] : layers.starts[last + 1]]
        rows.append(
            ProfileRow(first, last, tasks.size / (last - first + 1), _main_types(workflow, tasks))
        )
    return rows


def _main_types(workflow: Workflow, tasks: np.ndarray) -> str:
    counts = np.bincount(workflow.types[tasks], minlength=len(workflow.type_names))
    common = sorted(np.flatnonzero(counts).tolist(), key=lambda t: (-counts[t], t))
    names = [workflow.type_names[t] for t in common[:2]]
    return ", ".join(names) + (f" +{len(common) - 2}" if len(common) > 2 else "")


def bar(value: float, largest: float, width: int, *, plain: bool = False) -> str:
    """A horizontal bar; any value above zero shows at least an eighth of a character."""
    eighths = max(round(8 * width * value / largest), 1) if value > 0 else 0
    if plain:
        return "#" * -(-eighths // 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
