"""Writes SVG: elements as text, with everything from outside escaped."""

import html
import re
from collections.abc import Iterable

# Ten colours that most eyes can tell apart, in the order of use; then they repeat.
PALETTE = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#ee8866",
    "#44bb99",
    "#9977cc",
    "#999933",
)
INK = "#22272e"
FAINT = "#8a939e"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"

# Characters that XML 1.0 does not allow, not even escaped.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(words: str) -> str:
    return html.escape(_UNFIT.sub("\ufffd", words))


def colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def element(tag: str, *inside: str, **attributes: object) -> str:
    """An element, as in ``element("rect", x=1, stroke_width=2)``; underscores become hyphens."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{pairs}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{pairs}/>"


def text(x: float, y: float, words: str, **attributes: object) -> str:
    return element(
        "text", escape(words), **({"x": x, "y": y, "font_size": 12, "fill": INK} | attributes)
    )


def title(words: str) -> str:
    """Text that a viewer shows when the pointer rests on the enclosing element."""
    return element("title", escape(words))


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """A whole SVG document, on white, so that it is readable on dark pages too."""
    return element(
        "svg",
        element("rect", width=width, height=height, fill="white"),
        "\n",
        "\n".join(parts),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_plain(width)} {_plain(height)}",
        width=width,
        height=height,
        font_family=FONT,
    )


def _plain(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
