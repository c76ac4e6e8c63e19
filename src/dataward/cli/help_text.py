"""Writes help pages: plain text that fits the terminal, with coloured headings on one."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from textwrap import dedent, fill

from dataward.cli.parameters import CommandParameter

CELLS_MAX = 100
CELLS_MIN = 30
_NAME_CELLS_MAX = 24
_HELP_ROW = ("-h, --help", "Show this page.")


def page_of_all(about: str, commands: Mapping[str, str], ending: str) -> str:
    """The help of dataward itself."""
    usage = f"{_heading('Usage')} dataward [OPTIONS] COMMAND ...\n"
    options = [("--version", "Print the version."), _HELP_ROW]
    rows = _rows("Options", options) + _rows("Commands", list(commands.items()))
    return f"{usage}\n{_set(about)}\n{rows}\n{_filled(ending)}"


def page_of_command(
    name: str, function: Callable[..., None], parameters: Sequence[CommandParameter], listing: str
) -> str:
    """The help of one command: its docstring, a list of what there is, and its parameters."""
    arguments = [p for p in parameters if not p.names]
    options = [p for p in parameters if p.names]
    words = " ".join(map(_argument, arguments))
    usage = f"{_heading('Usage')} dataward {name} [OPTIONS] {words}".rstrip()
    text = _set(f"{dedent('    ' + (function.__doc__ or ''))}\n\n{listing}")
    rows = _rows("Arguments", [(p.shown, _about(p)) for p in arguments]) if arguments else ""
    rows += _rows("Options", [*((_names(p), _about(p)) for p in options), _HELP_ROW])
    return f"{usage}\n\n{text}\n{rows}".rstrip("\n")


def _argument(parameter: CommandParameter) -> str:
    name = f"{parameter.shown}..." if parameter.is_list else parameter.shown
    return name if parameter.is_required else f"[{name}]"


def _names(parameter: CommandParameter) -> str:
    names = [*parameter.names, parameter.off_name] if parameter.off_name else parameter.names
    shown = ", ".join(sorted(names, key=len))
    return shown if parameter.is_flag else f"{shown} {parameter.kind.upper()}"


def _about(parameter: CommandParameter) -> str:
    default = parameter.default
    if isinstance(default, Enum):
        default = default.value
    if parameter.is_flag or default is None or default == "":
        return parameter.help
    return f"{parameter.help} [default: {default}]"


# --- setting -------------------------------------------------------------------------------------


def _set(text: str) -> str:
    """A docstring's paragraphs and lists, without their marks."""
    for mark in ("`", "**"):
        text = text.replace(mark, "")
    blocks = [block.strip("\n") for block in text.split("\n\n")]
    return "".join(f"{_block(block)}\n\n" for block in blocks if block.strip()).rstrip("\n") + "\n"


def _block(block: str) -> str:
    if not block.startswith("- "):
        return _filled(block)
    items = block.removeprefix("- ").split("\n- ")
    return "\n".join(_filled(item, "  • ", "    ") for item in items)


def _rows(heading: str, rows: Sequence[tuple[str, str]]) -> str:
    width = min(max(len(name) for name, _ in rows), _NAME_CELLS_MAX, _cells() // 3)
    lines = [_heading(heading)]
    for name, about in rows:
        indent = " " * (width + 4)
        if len(name) <= width:
            lines.append(_filled(about, f"  {name:<{width}}  ", indent))
        else:
            lines += [f"  {name}", _filled(about, indent, indent)]
    return "\n".join(lines) + "\n\n"


def _filled(text: str, first: str = "  ", other: str = "  ") -> str:
    return fill(
        " ".join(text.split()),
        _cells(),
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cells() -> int:
    return max(min(shutil.get_terminal_size().columns, CELLS_MAX), CELLS_MIN)


def _heading(name: str) -> str:
    """The heading, in colour where somebody sees it and wants it."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not sys.stdout.isatty():
        return f"{name}:"
    return f"\x1b[1;36m{name}:\x1b[0m"
