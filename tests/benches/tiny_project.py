"""A project of one source and one test, small enough to be broken in no time."""

from pathlib import Path

from bench.mutants.draw import Mutant, draw
from bench.mutants.rooms import Project, Room

ROOM = Room("tiny", ("src/tiny",), ("tests",))

# A line that the test looks at, and one that it only runs.
SUMS = """
def double(number: int) -> int:
    print()
    return number + number
"""
TEST_SUMS = """
from tiny.sums import double

def test_four():
    assert double(2) == 4
"""


def a_project(root: Path, source: str = SUMS, test: str = TEST_SUMS) -> Project:
    files = {"src/tiny/sums.py": source, "tests/test_sums.py": test, "pyproject.toml": ""}
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Project(root, (ROOM,), seeded=())


def drawn(root: Path, source: str = SUMS, *, seed: int = 1) -> list[Mutant]:
    """All there are, in the order of the draw."""
    return list(draw(a_project(root, source).root, (ROOM,), seed))
