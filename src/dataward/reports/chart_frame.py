"""What all parts of a run's picture share: dimensions, colours, axis marks and names."""

from collections.abc import Sequence

from dataward.reports.core_time import Use
from dataward.reports.svg import FAINT, INK, element, text
from dataward.reports.time_axis import time_marks

WIDTH = 1240.0
MARGIN = 24.0
LEFT = 92.0
RIGHT = 1216.0
PLOT = RIGHT - LEFT

# Paul Tol's "bright" scheme, made for colour-blind eyes: useful time is blue, wasted time red to
# purple, time spent on data yellow and green.
COLOURS = {
    Use.USEFUL: "#4477aa",
    Use.REPLICA: "#66ccee",
    Use.UNDER_WAY: "#a9b8c9",
    Use.BEATEN: "#ee6677",
    Use.BROKEN: "#aa3377",
    Use.STARVED: "#ddcc77",
    Use.DOWN: "#b4bbc4",
}
STAGE_IN, STAGE_OUT = "stage-in", "stage-out"
BAR_COLOURS = {use.value: colour for use, colour in COLOURS.items()} | {
    STAGE_IN: "#ccaa22",
    STAGE_OUT: "#228833",
}
PALE = "#f1f3f5"
RULE = "#d8dde3"


def x_of(share: float) -> float:
    """The x of a share of the whole time; a share outside 0 to 1 is drawn on the edge."""
    return LEFT + PLOT * min(max(share, 0.0), 1.0)


def marks(end_seconds: float, top: float, bottom: float, *, under: bool = False) -> list[str]:
    """The lines of the time axis, with their names above a picture or under it."""
    parts = []
    for at, name in time_marks(end_seconds):
        x = x_of(at / end_seconds)
        parts.append(rule(x, top, x, bottom))
        anchor = "end" if x > RIGHT - 16 else "middle"
        y = bottom + 16 if under else top - 7
        parts.append(text(x, y, name, font_size=11, fill=FAINT, text_anchor=anchor))
    return parts


def rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=INK, stroke_width=0.5, opacity=0.25)


def cross(x: float, y: float) -> str:
    """The mark of a crash."""
    d = f"M{x - 4:.1f},{y - 4:.1f}l8,8m0,-8l-8,8"
    halo = element("path", d=d, stroke="white", stroke_width=5, fill="none")
    return halo + element("path", d=d, stroke=INK, stroke_width=2, fill="none")


def row_names(names: Sequence[str], middles: Sequence[float]) -> list[str]:
    """Names left of their rows; a name that would overlap the one above is left out."""
    parts = []
    free_from = 0.0
    for name, y in zip(names, middles, strict=True):
        if y - 6 >= free_from:
            short = shorten(name, 13)
            parts.append(text(LEFT - 8, y + 4, short, font_size=11, text_anchor="end"))
            free_from = y + 6
    return parts


def key(named: Sequence[tuple[str, str]], x: float, y: float) -> list[str]:
    """A legend in one line: words, each beside a square of its colour."""
    parts = []
    for words, fill in named:
        square = element("rect", x=x, y=y - 9, width=10, height=10, fill=fill, stroke=RULE)
        parts.append(square + text(x + 15, y, words, font_size=11))
        x += 15 + _width(words) + 18
    return parts


def _width(words: str) -> float:
    """The rough width of words at 11 pixels; the viewer's font is not known."""
    narrow = sum(letter in "fijlrt1 .,:" for letter in words)
    return 6.9 * len(words) - 2.6 * narrow


def percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shorten(words: str, length: int) -> str:
    return words if len(words) <= length else words[: length - 1] + "…"
