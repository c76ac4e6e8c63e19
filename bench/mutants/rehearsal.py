"""One run of the unbroken project: which tests pass, how long they take, which lines they reach.

It is kept, and used again as long as neither sources nor tests have changed.
"""

import asyncio
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from importlib.util import find_spec
from math import ceil, log10
from pathlib import Path
from typing import Any

from bench.mutants.draw import Mutant
from bench.mutants.rooms import Project, Room, is_within
from bench.mutants.trials import Copy, Ended, file_of, last_line

# For each line that was run by anybody the tests that reached it: none if it ran at import only.
Reached = dict[int, set[str]]

# pytest's words for tests that passed, and for some that failed.
RAN = (0, 1)


class CannotRehearse(Exception):  # noqa: N818 - a condition
    """The tests do not run even with nothing broken."""


@dataclass
class Rehearsal:
    """What each passing test took, and which tests reach which line."""

    seconds: Mapping[str, float]
    failed: Sequence[str]
    coverage_files: Sequence[Path]
    _reached: dict[str, Reached] = field(default_factory=dict)

    def tests_for(self, mutant: Mutant, room: Room) -> dict[str, float]:
        """The tests that could notice, in the order in which they should run, and what each takes.

        They are those that reach the statement. For one that runs at import they are those that
        reach its file. Where none is seen to, or where the room has lines that run in child
        processes, all tests of the room follow.
        """
        reached = self._lines(mutant.file)
        first, last = mutant.lines
        tests = self._cheapest_first(reached, range(first, last + 1))
        if room.has_children or not tests:
            is_seen = any(line in reached for line in range(first, last + 1))
            tests += self._cheapest_first(reached, reached)
            if room.has_children or not (tests and is_seen):
                tests += sorted(self._tests_of(room), key=self._cost)
        return {test: self.seconds[test] for test in tests}

    def _cheapest_first(self, reached: Reached, lines: Iterable[int]) -> list[str]:
        found = set[str]().union(*(reached.get(line, ()) for line in lines))
        return sorted(found & self.seconds.keys(), key=self._cost)

    def _cost(self, test: str) -> tuple[int, str, int]:
        """By powers of ten; those of one file stay together, for they may share a fixture."""
        return _magnitude(self.seconds[test]), file_of(test), self._positions[test]

    def _tests_of(self, room: Room) -> Iterator[str]:
        return (test for test in self.seconds if is_within(file_of(test), room.tests))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {test: position for position, test in enumerate(self.seconds)}

    def _lines(self, file: str) -> Reached:
        if file not in self._reached:
            self._reached[file] = _tests_by_line(self.coverage_files, file)
        return self._reached[file]


def has_coverage() -> bool:
    return find_spec("coverage") is not None


async def rehearse(
    project: Project, copies: Sequence[Copy], kept: Path, *, with_seeds: bool
) -> Rehearsal:
    """The rehearsal of these sources and tests, by all copies together unless it is known."""
    tests = project.tests(with_seeds=with_seeds)
    directory = kept / _digest(copies[0].root, tests)
    if not (directory / "complete").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        await asyncio.gather(
            *(
                _rehearse_part(project, copy, tests[part :: len(copies)], directory / str(part))
                for part, copy in enumerate(copies)
            )
        )
        (directory / "complete").touch()
    parts = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    return Rehearsal(
        seconds={test: s for part in parts for test, s in part["passed"].items()},
        failed=[test for part in parts for test in part["failed"]],
        coverage_files=sorted(directory.glob("*.coverage")),
    )


async def _rehearse_part(project: Project, copy: Copy, tests: Sequence[str], part: Path) -> None:
    if not tests:
        return
    sources = [file for room in project.rooms for file in room.files(copy.root)]
    seen = part.with_suffix(".coverage")
    ended = await copy.rehearse(tests, sources, seen, with_coverage=has_coverage())
    part.with_suffix(".json").write_text(json.dumps(_told(ended)))


def _told(ended: Ended) -> Mapping[str, Any]:
    if ended.told.get("status") not in RAN:
        raise CannotRehearse(f"the tests cannot be run: {last_line(ended.output)}")
    return ended.told


def _digest(root: Path, tests: Sequence[str]) -> str:
    digest = blake2b(repr((list(tests), has_coverage())).encode(), digest_size=8)
    for place in ("src", "tests", "pyproject.toml"):
        for path in sorted((root / place).rglob("*.*")) or [root / place]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\n{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _tests_by_line(coverage_files: Sequence[Path], file: str) -> Reached:
    found: Reached = {}
    for path in coverage_files:
        import coverage

        data = coverage.CoverageData(str(path))
        data.read()
        for line, tests in data.contexts_by_lineno(file).items():
            found.setdefault(line, set()).update(filter(None, tests))
    return found


def _magnitude(seconds: float) -> int:
    return ceil(log10(max(seconds, 0.001)))
