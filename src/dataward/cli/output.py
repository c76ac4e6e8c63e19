"""How commands speak: results on stdout, everything else on stderr."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from dataward.errors import FormatError, OutputError, WorkflowError
from dataward.model.workflow import Workflow

WARNINGS_MAX = 8
NAME_CELLS_MAX = 48
TABLE_CELLS_MAX = 1000

# What draws on a terminal, splits a line or cannot be encoded; paths may hold all of them.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def stdout_console(width: int | None = None) -> Console:
    """Text for people: wrapped and coloured on a terminal, plain in a pipe."""
    return Console(highlight=False, markup=False, emoji=False, width=width)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def complain(sentence: str) -> None:
    """Say on stderr, in one line, what went wrong."""
    stderr_console().print(f"dataward: {visible(sentence)}", soft_wrap=True)


def print_json(value: Any) -> None:
    """JSON is UTF-8, whatever the terminal speaks, so it goes out as bytes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def print_warnings(workflow: Workflow, source: str | Path) -> None:
    """What was odd in a file, on stderr, so that piped results stay clean."""
    console = stderr_console()
    for sentence in workflow.warnings[:WARNINGS_MAX]:
        console.print(f"warning: {visible(source)}: {visible(sentence)}", soft_wrap=True)
    if len(workflow.warnings) > WARNINGS_MAX:
        more = len(workflow.warnings) - WARNINGS_MAX
        console.print(f"warning: {visible(source)}: and {more} more", soft_wrap=True)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """A spinner while something long goes on; silent when nobody is watching."""
    console = stderr_console()
    if not console.is_terminal:
        yield
        return
    with console.status(visible(doing)):
        yield


@contextmanager
def reading_file(file: Path) -> Iterator[None]:
    """Busy with a file; what is wrong with the workflow as a whole is said with the file's name."""
    with busy(f"reading {file}"):
        try:
            yield
        except WorkflowError as error:
            raise FormatError(str(file), str(error)) from error


def write_text(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


def plain_table(*headings: str) -> Table:
    """A table without a frame: first column left, the others right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def print_table(console: Console, table: Table) -> None:
    """Whole in a pipe; a narrow terminal gets the first columns only, and those unshortened."""
    room = TABLE_CELLS_MAX
    if console.is_terminal or "COLUMNS" in os.environ:
        room = console.width
    unbounded = stdout_console(TABLE_CELLS_MAX)
    while len(table.columns) > 2 and _cells_wanted(unbounded, table) > room:
        table.columns.pop()
    stdout_console(room).print(table)


def _cells_wanted(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options, table).maximum


def visible(text: str | Path) -> str:
    """The text with what cannot be seen spelled out."""
    return _UNSEEN.sub(lambda unseen: ascii(unseen[0])[1:-1], str(text))


def encodable(path: Path) -> str:
    """The path as JSON can hold it: bytes that are no UTF-8 are spelled out."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def shortened(name: str, cells: int = NAME_CELLS_MAX) -> str:
    """The name in so many cells of a terminal; names from outside may be thousands long."""
    return name if cell_len(name) <= cells else set_cell_size(name, cells - 1) + "~"


def padded(name: str, cells: int) -> str:
    return name + " " * (cells - cell_len(name))


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
