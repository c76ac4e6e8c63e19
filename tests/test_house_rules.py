"""Holds the source to a few rules of the house that imports do not show.

What somebody else's object keeps behind an underscore is that object's business; an object is
complete once it is made; and a component that needs more than seven others is two components.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dataward"
FILES = sorted(SOURCE.rglob("*.py"))
ARGUMENTS_MAX = 7

# Python's own, or the standard's, which have no public name for it.
FOREIGN_PRIVATE = {"_exit", "_replace", "_make", "_fields", "_asdict", "_register_atexit"}

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


def nodes_of(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def own_private_names(path: Path) -> set[str]:
    """What the classes of a module keep to themselves: attributes, methods, fields, slots."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def private_accesses(path: Path) -> list[str]:
    """``other._name``, where ``other`` is of no class of the same module."""
    own = own_private_names(path) | FOREIGN_PRIVATE
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
    ]


def look_ups_by_name(path: Path) -> list[str]:
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes_of(path)
        if (isinstance(node, ast.Attribute) and node.attr == "__dict__")
        or (isinstance(node, ast.Name) and node.id == "hasattr")
    ]


def classes_of(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in nodes_of(path) if isinstance(node, ast.ClassDef))


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def constructor_arguments(node: ast.ClassDef) -> list[str]:
    """What must or may be given to make one; a dataclass's private fields are its own state."""
    if is_dataclass(node):
        fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
        names = [f.target.id for f in fields if isinstance(f.target, ast.Name)]
        return [name for name in names if not name.startswith("_")]
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = method.args
            return [a.arg for a in (*given.posonlyargs, *given.args[1:], *given.kwonlyargs)]
    return []


def is_settings(node: ast.ClassDef) -> bool:
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    return node.name.endswith("Settings") or (
        is_dataclass(node) and all(field.value is not None for field in fields)
    )


@each_file
def test_nobody_reaches_into_another_object(path: Path) -> None:
    assert private_accesses(path) == []


@each_file
def test_nobody_asks_whether_an_object_is_complete(path: Path) -> None:
    assert look_ups_by_name(path) == []


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent.name == "node"], ids=lambda path: path.name
)
def test_no_component_of_the_node_needs_more_than_seven_others(path: Path) -> None:
    # Settings are values, each with a default, and not what a component is joined from.
    components = [c for c in classes_of(path) if not is_settings(c)]

    too_many = {c.name: a for c in components if len(a := constructor_arguments(c)) > ARGUMENTS_MAX}

    assert too_many == {}


def assigned_from_outside(path: Path) -> list[str]:
    """``other.name = ...``, where ``other`` is a component or a session that somebody else made."""
    found = []
    for node in nodes_of(path):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and not is_own(target.value):
                found.append(f"line {target.lineno}: {ast.unparse(target)}")
    return found


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.parent.name in ("node", "live", "runs")],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_components_and_sessions_are_complete_once_made(path: Path) -> None:
    assert assigned_from_outside(path) == []


def public_types(path: Path) -> Iterator[str]:
    """Classes, and names that stand for types, at the top of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (n for n in names if n[0].isupper() and not n.isupper() and len(n) > 1)


def test_no_two_types_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for name in public_types(path):
            places.setdefault(name, []).append(str(path.relative_to(SOURCE)))

    assert {name: where for name, where in places.items() if len(where) > 1} == {}


# --- where to look first -------------------------------------------------------------------------


def rows_of_where_to_look_first(page: str) -> Iterator[tuple[str, list[str], set[str]]]:
    """Each question with the files that its row sends a reader to, and the functions it names."""
    rows = page.partition("Where to look first:")[2].partition("##")[0].splitlines()
    for row in rows:
        words = re.findall(r"`([^`]+)`", row)
        files = [word for word in words if word.endswith(".py")]
        if files:
            yield row.split("|")[1].strip(), files, {w for w in words if re.fullmatch("[a-z_]+", w)}


def names_in(path: Path) -> set[str]:
    """The functions and the fields of classes that a module has."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in nodes_of(path) if isinstance(node, kinds)}
    return found | own_private_names(path)


def test_where_to_look_first_sends_nobody_astray() -> None:
    page = (SOURCE.parents[1] / "docs" / "node.md").read_text(encoding="utf-8")
    known = names_in(SOURCE / "model" / "operations.py")  # a row may also name fields of a task

    for question, files, names in rows_of_where_to_look_first(page):
        paths = [SOURCE / file for file in files]

        assert [path for path in paths if not path.is_file()] == [], question
        assert names - known - set().union(*map(names_in, paths)) == set(), question


# --- the rules can be broken ---------------------------------------------------------------------

BAD = """
class Session:
    def __init__(self, a, b, c, d, e, f, g, h):
        self.store = None

def meddle(session):
    session.store = 1
    if hasattr(session, "store"):
        session.__dict__.pop("store")
    return session._hidden
"""


def test_each_rule_notices_who_breaks_it(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(BAD)

    assert private_accesses(path) == ["line 10: session._hidden"]
    assert len(look_ups_by_name(path)) == 2
    assert assigned_from_outside(path) == ["line 7: session.store"]
    (session,) = classes_of(path)
    assert names_in(path) >= {"meddle", "store"}
    assert len(constructor_arguments(session)) > ARGUMENTS_MAX
