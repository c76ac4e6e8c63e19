"""Prints for all commands: results on stdout, everything else on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataward.cli.complaints import visible
from dataward.errors import FormatError, OutputError, SettingError, WorkflowError
from dataward.model.workflow import Workflow

if TYPE_CHECKING:
    from rich.console import Console

WARNINGS_MAX = 8
NAME_CELLS_MAX = 48
LARGE_FILE_BYTES = 1 << 20  # smaller ones are read so fast that no spinner is needed


def stdout_console(width: int | None = None) -> "Console":
    """A console for text for people: wrapped and coloured on a terminal, plain in a pipe."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=width)


def stderr_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON, as bytes: JSON is UTF-8, whatever the terminal's encoding."""
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def print_warnings(workflow: Workflow, source: str | Path) -> None:
    """Print a workflow's warnings on stderr, so that piped results stay clean."""
    if not workflow.warnings:
        return
    console = stderr_console()
    for sentence in workflow.warnings[:WARNINGS_MAX]:
        console.print(f"warning: {visible(source)}: {visible(sentence)}", soft_wrap=True)
    if len(workflow.warnings) > WARNINGS_MAX:
        more = len(workflow.warnings) - WARNINGS_MAX
        console.print(f"warning: {visible(source)}: and {more} more", soft_wrap=True)


@contextmanager
def busy(doing: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner during something long, if stderr is a terminal.

    What is yielded changes its words.
    """
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    with stderr_console().status(visible(doing)) as status:
        yield lambda doing: status.update(visible(doing))


@contextmanager
def reading_file(file: Path) -> Iterator[None]:
    """Show a spinner while a large file is read; a WorkflowError then names the file."""
    with busy(f"reading {file}") if _is_large(file) else nullcontext():
        try:
            yield
        except WorkflowError as error:
            raise FormatError(str(file), str(error)) from error


def check_spares(file: Path, *written: Path | None, what: str = "the workflow") -> None:
    """Raise SettingError if a file is to be written that is read too, or written twice."""
    taken: set[Path] = set()
    for path in filter(None, written):
        if path.exists() and file.exists() and path.samefile(file):
            raise SettingError(f"{path} is {what} itself; name another file to write to")
        if path.resolve() in taken:
            raise SettingError(f"{path} is to be written twice; name two files")
        taken.add(path.resolve())


def _is_large(file: Path) -> bool:
    try:
        return file.stat().st_size >= LARGE_FILE_BYTES
    except OSError:  # whoever opens it will say why
        return False


def write_text(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


def encodable(path: Path) -> str:
    """The path as valid UTF-8 for JSON: other bytes are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def shortened(name: str, cells: int = NAME_CELLS_MAX) -> str:
    """The name in at most ``cells`` cells of a terminal; names from outside may be very long."""
    from rich.cells import cell_len, set_cell_size

    return name if cell_len(name) <= cells else set_cell_size(name, cells - 1) + "~"


def padded(name: str, cells: int) -> str:
    from rich.cells import cell_len

    return name + " " * (cells - cell_len(name))


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
