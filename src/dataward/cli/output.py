"""How commands speak: results on stdout, everything else on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from dataward.errors import OutputError
from dataward.model.workflow import Workflow

WARNINGS_MAX = 8


def stdout_console() -> Console:
    """Text for people; plain and unwrapped-safe when piped."""
    return Console(highlight=False, markup=False, emoji=False)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_warnings(workflow: Workflow, source: str) -> None:
    """What was odd in a file, on stderr, so that piped results stay clean."""
    console = stderr_console()
    for sentence in workflow.warnings[:WARNINGS_MAX]:
        console.print(f"warning: {source}: {sentence}", soft_wrap=True)
    if len(workflow.warnings) > WARNINGS_MAX:
        more = len(workflow.warnings) - WARNINGS_MAX
        console.print(f"warning: {source}: and {more} more")


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """A spinner while something long goes on; silent when nobody is watching."""
    console = stderr_console()
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield


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
        table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=i > 0)
    return table
