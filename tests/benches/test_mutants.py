from collections import Counter
from itertools import islice

import pytest

from bench.mutants.bench import REPOSITORY
from bench.mutants.draw import draw
from bench.mutants.mutations import edits
from bench.mutants.rooms import ROOMS, SEEDED
from bench.mutants.source import Source, statements
from benches.tiny_project import ROOM, a_project, drawn

SEVERAL = "def f(a, b):\n" + "".join(f"    g(a + {n}, b)\n" for n in range(2, 12))


def broken(source: str) -> list[tuple[str, str]]:
    """Each kind of edit, and the source after it."""
    parsed = Source(source.encode())
    found = [edit for statement in statements(parsed) for edit in edits(parsed, statement)]
    before = [parsed.content[: edit.start].decode() for edit in found]
    after = [parsed.content[edit.end :].decode() for edit in found]
    return [(e.kind, b + e.text + a) for e, b, a in zip(found, before, after, strict=True)]


# --- the draw ------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_mutants_and_another_seed_others(tmp_path):
    mutants = drawn(tmp_path, SEVERAL, seed=1)

    assert drawn(tmp_path, SEVERAL, seed=1) == mutants
    assert drawn(tmp_path, SEVERAL, seed=2) != mutants


def test_every_statement_is_drawn_once_before_any_is_drawn_twice(tmp_path):
    lines = [mutant.line for mutant in drawn(tmp_path, SEVERAL)]

    assert sorted(lines[:10]) == sorted(lines[10:20]) == list(range(2, 12))


def test_an_edit_elsewhere_changes_neither_the_order_of_the_draw_nor_its_mutants(tmp_path):
    before = drawn(tmp_path, SEVERAL)

    after = drawn(tmp_path, SEVERAL.replace("f(a, b):\n", "f(a, b):\n    h(a)\n"))

    others = [mutant.after for mutant in after if mutant.line != 2]
    assert others[:10] == [mutant.after for mutant in before[:10]]


def test_a_draw_from_some_files_has_their_mutants_of_the_whole_draw_in_its_order(tmp_path):
    root = a_project(tmp_path, SEVERAL).root
    for name in ("sums_too.py", "others.py"):
        (root / "src/tiny" / name).write_text(SEVERAL)
    whole = list(draw(root, [ROOM], seed=1))

    some = list(draw(root, [ROOM], 1, ["tiny/sums*.py"]))

    assert some == [m for m in whole if m.file != "src/tiny/others.py"]
    assert len({m.file for m in some}) == 2


def test_no_mutant_is_drawn_twice(tmp_path):
    # To empty this `finally` is to delete its only statement.
    mutants = drawn(tmp_path, "def f():\n    try:\n        g()\n    finally:\n        h()\n")

    assert Counter(mutant.before for mutant in mutants) == {"g()": 1, "h()": 1}


def test_what_is_the_same_program_or_none_is_not_drawn(tmp_path):
    # Swapped, the first two are the same; cut out, the last one leaves half of its parentheses.
    mutants = drawn(tmp_path, "def f(a):\n    g(a, a)\n    g([b, (c)])\n")

    assert {mutant.after for mutant in mutants} == {"pass"}


def test_a_name_that_is_set_only_once_is_the_last_thing_to_be_taken_away(tmp_path):
    mutants = drawn(tmp_path, "def f(a):\n    b = a + 1\n")

    assert [mutant.kind for mutant in mutants][-1] == "delete a statement"
    assert len(mutants) == 3


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_mutant_of_dataward_compiles_and_differs_from_it_in_one_span(room):
    for mutant in islice(draw(REPOSITORY, [room], seed=1), 10):
        content = (REPOSITORY / mutant.file).read_bytes()
        changed = mutant.broken(content)

        compile(changed, mutant.file, "exec")
        assert changed != content
        assert changed.startswith(content[: mutant.start])
        assert changed.endswith(content[mutant.end :])


def test_all_rooms_and_their_tests_are_there():
    places = [place for room in ROOMS for place in (*room.sources, *room.tests)]

    assert [place for place in (*places, *SEEDED) if not (REPOSITORY / place).exists()] == []


# --- what is broken, and what is left alone ------------------------------------------------------

BROKEN = [
    ("delete a statement", "def f(a):\n    a.go()", "def f(a):\n    pass"),
    ("delete a statement", "def f(a):\n    raise a", "def f(a):\n    pass"),
    ("swap break and continue", "for a in b:\n    break", "for a in b:\n    continue"),
    ("negate a condition", "if a:\n    pass", "if not (a):\n    pass"),
    ("negate a condition", "while (\n    a or b):\n    c", "while (\n    not (a or b)):\n    c"),
    ("negate a condition", "[a for a in b if a]", "[a for a in b if not (a)]"),
    ("negate a condition", "a if b else c", "a if not (b) else c"),
    ("drop a not", "if not (a):\n    pass", "if (a):\n    pass"),
    ("swap a comparison", "f(a < b)", "f(a <= b)"),
    ("swap a comparison", "f((a) == (b))", "f((a) != (b))"),
    ("swap a comparison", "f(a < b < c)", "f(a < b <= c)"),
    ("swap a comparison", "f(a not  in b)", "f(a in b)"),
    ("swap a comparison", "f(a is b)", "f(a is not b)"),
    ("swap and, or", "f(a and b and c)", "f(a and b or c)"),
    ("swap plus, minus", "f(ä + b)", "f(ä - b)"),
    ("swap plus, minus", "a += b", "a -= b"),
    ("replace a constant", "f(0)", "f(1)"),
    ("replace a constant", "f(1.0)", "f(0.0)"),
    ("replace a constant", "f(7)", "f(8)"),
    ("replace a constant", "f(True)", "f(False)"),
    ("replace a constant", "def f(a: int = 3): ...", "def f(a: int = 4): ..."),
    ("swap a function", "f(min(a, b))", "f(max(a, b))"),
    ("swap arguments", "f(a,  b, c)", "f(b,  a, c)"),
    ("drop an element", "f((a, b))", "f((b,))"),
    ("drop an element", "f([a, b, c])", "f([a, c])"),
    ("drop an element", "f({'a': b, 'c': d})", "f({'a': b})"),
    ("drop an element", "try:\n    a\nexcept (B, C):\n    d", "try:\n    a\nexcept (B,):\n    d"),
    (
        "empty a finally",
        "try:\n    a\nfinally:\n    b()\n    c()",
        "try:\n    a\nfinally:\n    pass",
    ),
    ("return a default", "def f() -> int:\n    return a", "def f() -> int:\n    return 0"),
    ("return a default", "def f() -> bool:\n    return a", "def f() -> bool:\n    return True"),
    ("return a default", "def f() -> list[A]:\n    return a", "def f() -> list[A]:\n    return []"),
    ("return a default", "def f() -> A:\n    return a", "def f() -> A:\n    return None"),
]


@pytest.mark.parametrize(("kind", "source", "changed"), BROKEN)
def test_an_edit_does_what_its_kind_says_and_nothing_else(kind, source, changed):
    assert (kind, changed) in broken(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 1 line."""',
        "from a import b",
        "__all__ = ['a', 'b']",
        "def f(a: Literal[1]) -> dict[int, Literal[2]]: ...",
        "class A:\n    a: tuple[int, Literal[2]]",
        "@dataclass(frozen=True)\nclass A(B, c=True): ...",
        "if TYPE_CHECKING:\n    a(1)",
        "def f(a):\n    _log.info('%s is not %s', a, 1)",
        "a = Callable[[int, str], None]",
        "a = int | list[Literal[1]]",
        "a = TypeVar('T', int, str)",
        "a = f'{b + 1} of {c(1, 2)}'",
        "LONG_SECONDS = 7.5  # long enough",
        "# Found by trying.\nMANY = 1 << 20",
        "class NodeSettings:\n    many: int = 1024",
    ],
)
def test_what_says_nothing_about_the_tests_is_left_alone(source):
    assert broken(source) == []


def test_what_an_error_or_an_assertion_says_is_left_alone():
    raised = broken("def f(a):\n    raise E('a + 1', f'{a + 1}')")
    asserted = broken("def f(a):\n    assert a, g(1)")

    assert {kind for kind, _ in raised} == {"delete a statement", "swap arguments"}
    assert {kind for kind, _ in asserted} == {"negate a condition"}


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("VERSION = 1", "VERSION = 0"),
        ("LABELS = {3}  # in this order", "LABELS = {4}  # in this order"),
        ("class Shard:\n    epoch: int = 0", "class Shard:\n    epoch: int = 1"),
        ("class ASettings:\n    giving: bool = True", "class ASettings:\n    giving: bool = False"),
    ],
)
def test_a_value_that_is_more_than_a_number_to_be_tuned_may_be_broken(source, changed):
    assert broken(source) == [("replace a constant", changed)]
