"""Draws mutants by a seed: every statement of the rooms has the same chance.

Each statement's lot depends on the seed, its file and its text, and on nothing else, so that an
edit elsewhere changes neither the other lots nor what is known of the mutants they drew.
"""

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePath
from random import Random

from bench.mutants.mutations import Edit, edits
from bench.mutants.rooms import Room
from bench.mutants.source import Source, Span, Statement, statements

Identity = tuple[str, int, int, str, str]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A source file with one span replaced, and how that looks to a reader."""

    room: str
    file: str
    digest: str  # of the file as it was
    kind: str
    start: int
    end: int
    replacement: str
    line: int
    # The lines of the statement: a test that reaches one of them may notice.
    lines: tuple[int, int]
    before: str
    after: str

    @property
    def identity(self) -> Identity:
        return (self.file, self.start, self.end, self.replacement, self.digest)

    def broken(self, content: bytes) -> bytes:
        return content[: self.start] + self.replacement.encode() + content[self.end :]


@dataclass(slots=True)
class Lot:
    """A statement's place in the draw, and what can be broken in it, in the order of its turns."""

    drawn: float
    room: str
    file: str
    source: Source
    lines: tuple[int, int]
    turns: Iterator[Edit]


def draw(
    root: Path, rooms: Iterable[Room], seed: int, patterns: Sequence[str] = ()
) -> Iterator[Mutant]:
    """One mutant of each statement in the order of their lots, then a second one of each, ...

    The order of the draw depends on nothing but the seed and the sources: the first twenty are the
    same however many are asked for. With ``patterns`` only files that match one of them are drawn
    from, in the order in which the whole draw has their mutants.
    """
    lots = [
        lot
        for room in rooms
        for file in room.files(root)
        if not patterns or any(map(PurePath(file).match, patterns))
        for lot in _lots(root, room, file, seed)
    ]
    lots.sort(key=lambda lot: (lot.drawn, lot.file, lot.lines))
    seen: set[Identity] = set()
    while lots:
        left = []
        for lot in lots:
            mutant = next((m for m in _mutants(lot) if m.identity not in seen), None)
            if mutant:
                seen.add(mutant.identity)
                left.append(lot)
                yield mutant
        lots = left


def _lots(root: Path, room: Room, file: str, seed: int) -> Iterator[Lot]:
    source = Source((root / file).read_bytes())
    times: Counter[str] = Counter()
    for statement in statements(source):
        span = source.header_span(statement.node)
        text = source.content[slice(*span)].decode()
        random = Random(f"{seed}\n{file}\n{text}\n{times[text]}")
        times[text] += 1
        lines = (source.line_of(span[0]), source.line_of(span[1] - 1))
        drawn = random.random()
        yield Lot(drawn, room.name, file, source, lines, _turns(source, statement, random))


def _turns(source: Source, statement: Statement, random: Random) -> Iterator[Edit]:
    """Kinds take turns, or a line with many numbers would hardly ever lose anything else.

    What is noticed by whatever runs the line comes last, as it says least about the tests.
    """
    by_kind: dict[str, list[Edit]] = {}
    plain: list[Edit] = []
    for edit in edits(source, statement):
        row = plain if edit.is_plain else by_kind.setdefault(edit.kind, [])
        row.append(edit)
    kinds = list(by_kind.values())
    random.shuffle(kinds)
    for kind in kinds:
        random.shuffle(kind)
    while kinds:
        yield from [kind.pop() for kind in kinds]
        kinds = [kind for kind in kinds if kind]
    yield from plain


def _mutants(lot: Lot) -> Iterator[Mutant]:
    """What is left of its turns, without what does not compile or is the same program."""
    for edit in lot.turns:
        mutant = _mutant(lot, edit)
        if _is_another_program(lot.source, mutant):
            yield mutant


def _mutant(lot: Lot, edit: Edit) -> Mutant:
    content = lot.source.content
    around = lot.source.lines_span((edit.start, edit.end))
    after = content[around[0] : edit.start] + edit.text.encode() + content[edit.end : around[1]]
    return Mutant(
        room=lot.room,
        file=lot.file,
        digest=blake2b(content, digest_size=8).hexdigest(),
        kind=edit.kind,
        start=edit.start,
        end=edit.end,
        replacement=edit.text,
        line=lot.source.line_of(edit.start),
        lines=_joined(lot.lines, lot.source, (edit.start, edit.end)),
        before=_in_one_line(content[slice(*around)]),
        after=_in_one_line(after),
    )


def _joined(lines: tuple[int, int], source: Source, span: Span) -> tuple[int, int]:
    """The body of a ``finally`` is not within the header of its ``try``: then only the body."""
    first, last = source.line_of(span[0]), source.line_of(max(span[0], span[1] - 1))
    return lines if first <= lines[1] else (first, last)


def _in_one_line(content: bytes) -> str:
    return " ".join(line.strip() for line in content.decode().splitlines())


def _is_another_program(source: Source, mutant: Mutant) -> bool:
    broken = mutant.broken(source.content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `is` beside a number, for one
            compile(broken, mutant.file, "exec")
            return ast.dump(ast.parse(broken)) != source.dump
    except (SyntaxError, ValueError):
        return False
