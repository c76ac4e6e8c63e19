"""What can be broken in one statement: each way is an edit of one span of the file's bytes."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from bench.mutants.source import Source, Statement, Word

COMPARISONS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
# To swap these is to negate them, so that a condition made of one alone is not negated as well.
NEGATED_BY_SWAPPING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
OPPOSITES = {"and": "or", "or": "and", "+": "-", "-": "+", "+=": "-=", "-=": "+="}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Functions that do not mind the order of their arguments, or that fail at once in any other.
ORDER_LEFT_ALONE = frozenset({"min", "max", "isinstance", "issubclass", "getattr", "setattr"})
FOR_TYPE_CHECKERS = frozenset({"cast", "NewType", "TypeVar", "ParamSpec"})
# What can be added but not subtracted: the mistake would be noticed by whatever runs the line.
ROWS = (ast.JoinedStr, ast.List, ast.Tuple)

# What stands in for a returned value, by the name of its type.
DEFAULTS = {
    "bool": ("False", "True"),
    "int": ("0",),
    "float": ("0.0",),
    "str": ('""',),
    "bytes": ('b""',),
    "list": ("[]",),
    "dict": ("{}",),
    "Mapping": ("{}",),
    "set": ("set()",),
    "frozenset": ("frozenset()",),
    "tuple": ("()",),
    "Sequence": ("()",),
    "Iterable": ("()",),
    "Iterator": ("iter(())",),
}

# Not behaviour, or not of this statement: see `_own_nodes`.
FIELDS_LEFT_ALONE = frozenset(
    {"annotation", "returns", "decorator_list", "bases", "msg", "type_params"}
)
NODES_LEFT_ALONE = (ast.stmt, ast.JoinedStr, ast.pattern, ast.expr_context)


@dataclass(frozen=True, slots=True)
class Edit:
    """``text`` in the place of the bytes from ``start`` to ``end``.

    A plain one is noticed by whatever runs the line: a name that nothing else sets is not set.
    """

    kind: str
    start: int
    end: int
    text: str
    is_plain: bool = False


def edits(source: Source, statement: Statement) -> Iterator[Edit]:
    """All that can be broken in the statement itself; statements within it have their own."""
    yield from _of_the_whole(source, statement)
    for node in _own_nodes(statement.node):
        for rule in RULES.get(type(node), ()):
            yield from rule(source, node)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and the expressions in it, without texts, types, decorators and patterns."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in FIELDS_LEFT_ALONE or (isinstance(node, ast.ClassDef) and name == "keywords"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, NODES_LEFT_ALONE):
                continue
            if isinstance(child, ast.Call) and _name(child.func) in FOR_TYPE_CHECKERS:
                continue
            below = _own_nodes(child)
            if _has_its_length_from(node, name, child):
                next(below)
            yield from below


def _has_its_length_from(node: ast.AST, name: str, child: ast.AST) -> bool:
    """A row of things whose number nobody chose: what is unpacked, and what is in brackets."""
    if not isinstance(child, ast.Tuple | ast.List):
        return False
    is_unpacked = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    return is_unpacked or (isinstance(node, ast.Subscript) and name == "slice")


# --- a statement as a whole ----------------------------------------------------------------------


def _of_the_whole(source: Source, statement: Statement) -> Iterator[Edit]:
    node = statement.node
    match node:
        case ast.Assign() | ast.AnnAssign(value=ast.expr()) if not statement.function:
            return  # without its name a module could not even be imported
        case (
            ast.Expr()
            | ast.Assign()
            | ast.AnnAssign(value=ast.expr())
            | ast.AugAssign()
            | ast.Delete()
            | ast.Raise()
            | ast.Return()
            | ast.Break()
            | ast.Continue()
        ):
            is_plain = _sets_what_nothing_else_sets(statement)
            yield Edit("delete a statement", *source.span(node), "pass", is_plain)
    match node:
        case ast.Break() | ast.Continue():
            other = "continue" if isinstance(node, ast.Break) else "break"
            yield Edit("swap break and continue", *source.span(node), other)
        case ast.Return(value=ast.expr() as value):
            for default in _defaults(statement):
                yield Edit("return a default", *source.span(value), default)
        case ast.Try(finalbody=[first, *_] as body):
            start, end = source.span(first)[0], source.span(body[-1])[1]
            yield Edit("empty a finally", start, end, "pass")


def _sets_what_nothing_else_sets(statement: Statement) -> bool:
    node, function = statement.node, statement.function
    if function is None or not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if all(isinstance(target, ast.Attribute) for target in targets):
        return function.name == "__init__"
    bound = [
        name.id
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    ]
    bound += [argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)]
    names = [name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name)]
    return any(bound.count(name) == 1 for name in names)


def _defaults(statement: Statement) -> tuple[str, ...]:
    returns = statement.function and statement.function.returns
    name = ast.unparse(returns).strip("'\"").partition("[")[0] if returns else ""
    return DEFAULTS.get(name, ("None",))


# --- expressions ---------------------------------------------------------------------------------


def _negate_condition(
    source: Source, node: ast.If | ast.While | ast.IfExp | ast.Assert
) -> Iterator[Edit]:
    yield from _negated(source, node.test)


def _negate_filters(source: Source, node: ast.comprehension) -> Iterator[Edit]:
    for test in node.ifs:
        yield from _negated(source, test)


def _negated(source: Source, test: ast.expr) -> Iterator[Edit]:
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return
        case ast.Compare(ops=[op]) if isinstance(op, NEGATED_BY_SWAPPING):
            return
    yield Edit("negate a condition", *source.span(test), f"not ({source.text(test)})")


def _drop_not(source: Source, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        start, end = source.span(node)
        rest = source.content[start + len("not") : end]
        yield Edit("drop a not", start, end - len(rest.lstrip(b" ")), "")


def _swap_comparison(source: Source, node: ast.Compare) -> Iterator[Edit]:
    for left, right in pairwise([node.left, *node.comparators]):
        words = _operator(source, left, right)
        shown = " ".join(word.text for word in words)
        yield Edit("swap a comparison", words[0].start, words[-1].end, COMPARISONS[shown])


def _swap_and_or(source: Source, node: ast.BoolOp) -> Iterator[Edit]:
    for left, right in pairwise(node.values):
        (word,) = _operator(source, left, right)
        yield Edit("swap and, or", word.start, word.end, OPPOSITES[word.text])


def _swap_sign(source: Source, node: ast.BinOp | ast.AugAssign) -> Iterator[Edit]:
    if not isinstance(node.op, ast.Add | ast.Sub):
        return
    left, right = (
        (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    )
    if _is_row(left) or _is_row(right):
        return
    (word,) = _operator(source, left, right)
    yield Edit("swap plus, minus", word.start, word.end, OPPOSITES[word.text])


def _replace_constant(source: Source, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield Edit("replace a constant", *source.span(node), str(not value))
    elif isinstance(value, int | float):
        other = type(value)(1 - value) if value in (0, 1) else value + 1
        yield Edit("replace a constant", *source.span(node), repr(other))


def _swap_function(source: Source, node: ast.Call) -> Iterator[Edit]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in FUNCTIONS:
        yield Edit("swap a function", *source.span(node.func), FUNCTIONS[name])


def _swap_arguments(source: Source, node: ast.Call) -> Iterator[Edit]:
    if _name(node.func) in ORDER_LEFT_ALONE:
        return
    for one, other in pairwise(node.args):
        if isinstance(one, ast.Starred) or isinstance(other, ast.Starred):
            continue
        (start, one_end), (other_start, end) = source.span(one), source.span(other)
        between = source.content[one_end:other_start].decode()
        swapped = source.text(other) + between + source.text(one)
        yield Edit("swap arguments", start, end, swapped)


def _drop_element(source: Source, node: ast.Tuple | ast.List | ast.Set) -> Iterator[Edit]:
    if isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load):
        spans = [source.span(element) for element in node.elts]
        yield from _each_dropped(source, spans, "," if isinstance(node, ast.Tuple) else "")


def _drop_pair(source: Source, node: ast.Dict) -> Iterator[Edit]:
    spans = [
        (source.span(key)[0], source.span(value)[1])
        for key, value in zip(node.keys, node.values, strict=True)
        if key is not None
    ]
    if len(spans) == len(node.keys):
        yield from _each_dropped(source, spans, "")


def _each_dropped(source: Source, spans: list[tuple[int, int]], comma: str) -> Iterator[Edit]:
    """One of several less; the last one left of a tuple needs a comma to stay a tuple."""
    kind = "drop an element"
    if len(spans) == 2:
        for start, end in spans:
            left = source.content[start:end].decode() + comma
            yield Edit(kind, spans[0][0], spans[1][1], left)
    elif len(spans) > 2:
        for (start, _), (following, _) in pairwise(spans):
            yield Edit(kind, start, following, "")
        yield Edit(kind, spans[-2][1], spans[-1][1], "")


RULES: dict[type[ast.AST], tuple[Callable[..., Iterator[Edit]], ...]] = {
    ast.If: (_negate_condition,),
    ast.While: (_negate_condition,),
    ast.IfExp: (_negate_condition,),
    ast.Assert: (_negate_condition,),
    ast.comprehension: (_negate_filters,),
    ast.UnaryOp: (_drop_not,),
    ast.Compare: (_swap_comparison,),
    ast.BoolOp: (_swap_and_or,),
    ast.BinOp: (_swap_sign,),
    ast.AugAssign: (_swap_sign,),
    ast.Constant: (_replace_constant,),
    ast.Call: (_swap_function, _swap_arguments),
    ast.Tuple: (_drop_element,),
    ast.List: (_drop_element,),
    ast.Set: (_drop_element,),
    ast.Dict: (_drop_pair,),
}


def _operator(source: Source, left: ast.expr, right: ast.expr) -> list[Word]:
    return source.words_between(source.span(left)[1], source.span(right)[0])


def _name(function: ast.expr) -> str:
    return getattr(function, "id", "") or getattr(function, "attr", "")


def _is_row(node: ast.expr) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_text or isinstance(node, ROWS)
