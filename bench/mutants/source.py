"""A source file as bytes, with the byte span of every piece, and the statements worth breaking."""

import ast
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import accumulate

Function = ast.FunctionDef | ast.AsyncFunctionDef
Span = tuple[int, int]

CONSTANT_NAME = re.compile(r"_?[A-Z][A-Z0-9_]*$")
DUNDER_NAME = re.compile(r"__\w+__$")
LOG_NAME = re.compile(r"_?(log|logger|logging|warnings)$")
NUMBERS = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)


@dataclass(frozen=True, slots=True)
class Word:
    """An operator or a name, and where it is."""

    text: str
    start: int
    end: int


class Source:
    """The bytes of a file, what they parse to, and from each node back to its bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tree = ast.parse(content)
        self._lines = content.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._words, self._commented = self._read_tokens()

    @cached_property
    def dump(self) -> str:
        """The program without its layout: two sources with the same dump do the same."""
        return ast.dump(self.tree)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.content[start:end].decode()

    def header_span(self, node: ast.stmt) -> Span:
        """The statement without the statements in it: of an ``if`` only its first line, mostly."""
        start, end = self.span(node)
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        if not body:
            return start, end
        first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        before = self._starts[first.lineno - 1] + first.col_offset
        return start, start + len(self.content[start:before].rstrip())

    def words_between(self, start: int, end: int) -> list[Word]:
        """The operators and names there; parentheses are left out."""
        first = bisect_left(self._words, start, key=lambda word: word.start)
        last = bisect_left(self._words, end, key=lambda word: word.start)
        return [word for word in self._words[first:last] if word.text not in "()"]

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def lines_span(self, span: Span) -> Span:
        """From the start of the first line that a span touches to the end of its last."""
        first, last = self.line_of(span[0]), self.line_of(max(span[0], span[1] - 1))
        return self._starts[first - 1], self._starts[last]

    def has_comment(self, node: ast.stmt) -> bool:
        """On one of its lines, or on the line above."""
        assert node.end_lineno is not None
        lines = range(node.lineno, node.end_lineno + 1)
        above = node.lineno - 1
        stands_alone = above and self._lines[above - 1].lstrip().startswith(b"#")
        return bool(stands_alone) or any(line in self._commented for line in lines)

    def _read_tokens(self) -> tuple[list[Word], set[int]]:
        words, commented = [], set()
        for token in tokenize.tokenize(BytesIO(self.content).readline):
            if token.type == tokenize.COMMENT:
                commented.add(token.start[0])
            elif token.type in (tokenize.OP, tokenize.NAME):
                start = self._offset(*token.start)
                words.append(Word(token.string, start, start + len(token.string.encode())))
        return words, commented

    def _offset(self, line: int, column: int) -> int:
        """Tokens count characters, nodes count bytes."""
        before = self._lines[line - 1].decode()[:column]
        return self._starts[line - 1] + len(before.encode())


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, and the function or the class that it stands in."""

    node: ast.stmt
    function: Function | None = None
    owner: ast.ClassDef | None = None


def statements(source: Source) -> Iterator[Statement]:
    """Every statement but those whose change says nothing about the tests."""
    for statement in _all_statements(source.tree.body, None, None):
        if not _is_left_alone(source, statement):
            yield statement


def _all_statements(
    body: list[ast.stmt], function: Function | None, owner: ast.ClassDef | None
) -> Iterator[Statement]:
    for node in body:
        yield Statement(node, function, owner)
        if isinstance(node, Function):
            yield from _all_statements(node.body, node, None)
        elif isinstance(node, ast.ClassDef):
            yield from _all_statements(node.body, None, node)
        elif isinstance(node, ast.If) and _is_for_type_checkers(node.test):
            yield from _all_statements(node.orelse, function, owner)
        else:
            for inner in _bodies(node):
                yield from _all_statements(inner, function, owner)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    for part in parts:
        for name in ("body", "orelse", "finalbody"):
            yield getattr(part, name, [])


def _is_left_alone(source: Source, statement: Statement) -> bool:
    node = statement.node
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):  # docstrings, and bodies of protocols
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return bool(LOG_NAME.match(name))
        case ast.If(test=test):
            return _is_for_type_checkers(test)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return bool(DUNDER_NAME.match(name)) or (
                not statement.function and (_is_type(value) or _is_tuning(source, statement, name))
            )
        case ast.AnnAssign(target=ast.Name(id=name)):
            return not statement.function and _is_tuning(source, statement, name)
    return False


def _is_for_type_checkers(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _is_type(value: ast.expr) -> bool:
    """``Mapping[str, int]`` or ``A | B``: a type that was given a name."""
    is_union = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    return is_union or isinstance(value, ast.Subscript)


def _is_tuning(source: Source, statement: Statement, name: str) -> bool:
    """Whether it is a number that was chosen and could be another: changing it only costs time.

    A constant of a module that a comment explains, and any number that is a default of settings.
    """
    node = statement.node
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    if node.value is None or not _is_number(node.value):
        return False
    if statement.owner:
        return statement.owner.name.endswith("Settings")
    return bool(CONSTANT_NAME.match(name)) and source.has_comment(node)


def _is_number(value: ast.expr) -> bool:
    return all(
        isinstance(node, NUMBERS)
        and (not isinstance(node, ast.Constant) or type(node.value) in (int, float))
        for node in ast.walk(value)
    )
