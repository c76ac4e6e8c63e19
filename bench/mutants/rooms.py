"""Which sources are broken, which tests could notice, and which of those try many seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Room:
    """Sources and the tests that reach them; directories or files, from the project's root."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    # Some of it runs in child processes, where nobody sees which lines a test reaches. Then all
    # tests of the room are run if those that are seen to reach the line notice nothing.
    has_children: bool = False

    def files(self, root: Path) -> Iterator[str]:
        """Its Python files in the order of their names."""
        for source in self.sources:
            place = root / source
            found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
            yield from (path.relative_to(root).as_posix() for path in found)


ROOMS = (
    Room(
        "stores",
        ("src/dataward/stores",),
        ("tests/stores", "tests/conformance", "tests/node", "tests/sim", "tests/runs"),
    ),
    Room(
        "node",
        ("src/dataward/node",),
        ("tests/node", "tests/conformance", "tests/stores", "tests/sim", "tests/runs"),
    ),
    Room(
        "live",
        ("src/dataward/live",),
        (
            "tests/live",
            "tests/conformance/test_disk.py",
            "tests/conformance/test_network.py",
            "tests/conformance/test_runner.py",
            "tests/runs",
            "tests/calls",
            "tests/cli",
        ),
        has_children=True,
    ),
    Room("runs", ("src/dataward/runs",), ("tests/runs", "tests/cli", "tests/test_examples.py")),
    Room(
        "calls",
        ("src/dataward/calls",),
        ("tests/calls", "tests/runs", "tests/test_examples.py"),
        has_children=True,
    ),
    Room(
        "sim",
        ("src/dataward/sim/fairshare.py", "src/dataward/sim/network_flows.py"),
        ("tests/sim",),
    ),
    Room("strategies", ("src/dataward/strategies",), ("tests/strategies", "tests/sim")),
)

# They try whole campaigns, which notice nearly everything after a while: what is asked is whether
# the tests that say what is meant do.
SEEDED = ("tests/sim/test_campaign.py", "tests/sim/test_mutations.py", "tests/replay")


@dataclass(frozen=True, slots=True)
class Project:
    """What is put to the test; another than dataward only in the bench's own tests."""

    root: Path
    rooms: tuple[Room, ...] = ROOMS
    seeded: tuple[str, ...] = SEEDED

    def tests(self, *, with_seeds: bool) -> list[str]:
        """The test files of all the rooms, in the order of their names."""
        wanted = [test for room in self.rooms for test in room.tests]
        wanted += self.seeded if with_seeds else ()
        files = {file for test in wanted for file in _test_files(self.root, test)}
        return sorted(f for f in files if with_seeds or not is_within(f, self.seeded))


def is_within(file: str, places: Sequence[str]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)


def _test_files(root: Path, place: str) -> Iterator[str]:
    found = (root / place).rglob("test_*.py") if (root / place).is_dir() else [root / place]
    return (path.relative_to(root).as_posix() for path in found)
