"""Shares of cores over time as stacked areas."""

import numpy as np

from dataward.reports.chart_frame import COLOURS, LEFT, PALE, PLOT, RIGHT
from dataward.reports.core_time import CoreTime, Floats, Use
from dataward.reports.svg import element


def stacked(use: CoreTime, top: float, height: float) -> list[str]:
    """One row's shares as stacked areas; the share of nodes that are down hangs from the top."""
    parts = [element("rect", x=LEFT, y=top, width=PLOT, height=height, fill=PALE)]
    level = np.zeros(use.there_were.shape[1])
    areas = []
    for kind in Use:
        if kind is not Use.DOWN and use.spent[kind].any():
            level = level + use.shares(kind)[0]
            areas.append((kind, _area(level, top + height, -height)))
    # Draw the highest area first and each lower one over it, so that no gaps show between colours.
    parts += [element("path", d=area, fill=COLOURS[kind]) for kind, area in reversed(areas)]
    if use.spent[Use.DOWN].any():
        area = _area(use.shares(Use.DOWN)[0], top, height)
        parts.append(element("path", d=area, fill=COLOURS[Use.DOWN]))
    return parts


def _area(shares: Floats, base: float, height: float) -> str:
    """The outline of an area: for each slice of time, a step of its share of the height."""
    width = PLOT / shares.size
    steps = [f"M{LEFT:g},{base:.1f}"]
    last = f"{base:.1f}"
    for i, share in enumerate(np.clip(shares, 0.0, 1.0).tolist()):
        y = f"{base + height * share:.1f}"
        if y != last:
            steps.append(f"H{LEFT + i * width:.1f}V{y}")
            last = y
    return "".join(steps) + f"H{RIGHT:g}V{base:.1f}Z"
