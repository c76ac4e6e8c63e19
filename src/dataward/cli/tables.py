"""Prints tables. On a narrow terminal they lose no column without a word.

Columns that can be spared are left out, and named below the table. If the rest is still too wide,
the columns go on below, and if not even two fit, each row becomes a list of its cells.
"""

import os
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console

from dataward.cli.output import padded, stdout_console

_GAP = 2
_UNBOUNDED = 100_000

Row = Sequence[str]


def print_table(
    headings: Row, rows: Sequence[Row], *, spare: Sequence[str] = (), left: bool = False
) -> None:
    """Print a table on stdout: the first column flush left, the others flush right or ``left``.

    ``spare`` names the columns that may be left out, the first of them first.
    """
    console = stdout_console()
    for line, is_heading in table_lines(headings, rows, _room(console), spare, left=left):
        console.print(line, style="bold" if is_heading else "", soft_wrap=True)


def _room(console: Console) -> int:
    """The width of the terminal; a file or a pipe has room for everything."""
    if console.is_terminal or "COLUMNS" in os.environ:
        return console.width
    return _UNBOUNDED


def table_lines(
    headings: Row, rows: Sequence[Row], room: int, spare: Sequence[str] = (), *, left: bool = False
) -> Iterator[tuple[str, bool]]:
    """The lines of the table, each with whether it is a heading."""
    cells = [headings, *rows]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(headings))]
    kept = _kept(headings, widths, room, spare)
    if _width(widths, kept) <= room:
        yield from _lines(cells, widths, kept, left=left)
    elif all(_width(widths, [0, i]) <= room for i in kept[1:]):
        for number, block in enumerate(_blocks(widths, kept, room)):
            if number == 1:
                yield from _wrapped("(too wide for this terminal: the columns go on below)", room)
            if number:
                yield "", False
            yield from _lines(cells, widths, block, left=left)
    else:
        yield from _lists(headings, rows, kept)
    left_out = [heading for i, heading in enumerate(headings) if i not in kept]
    if left_out:
        note = f"(no room for {', '.join(left_out)}: a wider terminal or --json shows all)"
        yield from _wrapped(note, room)


def _kept(headings: Row, widths: Sequence[int], room: int, spare: Sequence[str]) -> list[int]:
    kept = list(range(len(headings)))
    for heading in spare:
        if _width(widths, kept) <= room:
            break
        kept.remove(headings.index(heading))
    return kept


def _width(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[i] for i in columns) + _GAP * (len(columns) - 1)


def _blocks(widths: Sequence[int], columns: Sequence[int], room: int) -> list[list[int]]:
    """The columns in as few blocks as they need, each with the first column before it."""
    blocks = [[columns[0]]]
    for column in columns[1:]:
        if _width(widths, [*blocks[-1], column]) > room:
            blocks.append([columns[0]])
        blocks[-1].append(column)
    return blocks


def _lines(
    cells: Sequence[Row], widths: Sequence[int], columns: Sequence[int], *, left: bool
) -> Iterator[tuple[str, bool]]:
    first, *others = columns
    for number, row in enumerate(cells):
        line = padded(row[first], widths[first])
        for i in others:
            space = " " * (widths[i] - cell_len(row[i]))
            line += " " * _GAP + (row[i] + space if left else space + row[i])
        yield line.rstrip(), number == 0


def _lists(
    headings: Row, rows: Sequence[Row], columns: Sequence[int]
) -> Iterator[tuple[str, bool]]:
    first, *others = columns
    width = max((cell_len(headings[i]) for i in others), default=0)
    for row in rows:
        yield row[first], True
        for i in others:
            yield f"  {padded(headings[i], width)}  {row[i]}", False


def _wrapped(note: str, room: int) -> Iterator[tuple[str, bool]]:
    line = ""
    for word in note.split():
        if line and cell_len(line) + 1 + cell_len(word) > room:
            yield line, False
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line, False
