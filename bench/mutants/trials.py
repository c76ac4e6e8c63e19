"""Copies of the project, and pytest in them: once over everything, then once for each mutant."""

import asyncio
import compileall
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from bench.mutants.draw import Mutant
from bench.mutants.fence import NO_FENCE

Fence = Callable[[Path, Path], list[str]]

INSIDE = Path(__file__).parent / "inside"
LEFT_OUT = shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info")
# xdist is told to stay out, and hypothesis to draw the same each time.
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0")
PLUGIN = ("-p", "mutants_plugin")

# A test may take so many times as long as in the rehearsal, and so many seconds besides: others
# use the machine too, and a mutant that hangs is rare.
TIMES_AS_LONG = 5.0
SECONDS_BESIDES = 30.0
# The first for Python, pytest and the imports; the other for a rehearsal that hangs.
START_SECONDS_MAX = 60.0
REHEARSAL_SECONDS_MAX = 3600.0

CAUGHT, SURVIVED, TIMED_OUT, NOT_RUN = "caught", "survived", "timed out", "not run"
# pytest's own words for wrong usage and for no tests at all.
COULD_NOT_RUN = (4, 5)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant; ``by`` is the test that noticed, or why it could not be tried."""

    outcome: str
    by: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """How pytest ended: ``told`` is what its plugin wrote, or empty if it never got that far."""

    told: Mapping[str, Any]
    code: int
    took_too_long: bool
    running: str
    output: str


class Copy:
    """The whole project in a directory of its own, where one file at a time is broken."""

    def __init__(self, origin: Path, root: Path, fence: Fence) -> None:
        self.root = root
        self._fence = fence
        if root.exists():
            shutil.rmtree(root)
        shutil.copytree(origin, root, ignore=LEFT_OUT, symlinks=True)
        # A broken file may have the size and the time of the whole one; its digest it has not.
        mode = PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(root / "src", quiet=1, invalidation_mode=mode)

    async def try_out(self, mutant: Mutant, tests: Mapping[str, float]) -> Verdict:
        """Run these tests on the mutant up to the first that fails.

        ``tests`` has what each took in the rehearsal, in the order in which they are to run.
        """
        began = monotonic()
        with self._broken(mutant):
            outcome, by = _judged(await self._run_tests(tests))
            left = dict(tests)
            while outcome == CAUGHT and by in left and not await self._fails(by, left):
                del left[by]  # it fails now and then, which says nothing of the mutant
                outcome, by = _judged(await self._run_tests(left)) if left else (SURVIVED, "")
        if outcome == TIMED_OUT and not await self._is_in_time(by, tests):
            outcome, by = NOT_RUN, f"the machine is too busy: {by} is late with nothing broken"
        return Verdict(outcome, by, seconds=monotonic() - began)

    async def _fails(self, test: str, tests: Mapping[str, float]) -> bool:
        """Whether the test fails, run alone."""
        outcome, _ = _judged(await self._run_tests({test: tests[test]}))
        return outcome != SURVIVED

    async def _is_in_time(self, test: str, tests: Mapping[str, float]) -> bool:
        """Whether the test ends in time now with nothing broken."""
        ended = await self._run_tests({test: tests[test]} if test in tests else tests)
        return not ended.took_too_long

    async def _run_tests(self, tests: Mapping[str, float]) -> Ended:
        limits = {t: TIMES_AS_LONG * s + SECONDS_BESIDES for t, s in tests.items()}
        longest = START_SECONDS_MAX + TIMES_AS_LONG * sum(tests.values()) + max(limits.values())
        with _a_place() as place:
            errand = {"tests": list(limits.items())}
            return await self._run(place, errand, _files_of(tests), ("-x",), longest)

    async def rehearse(
        self, tests: Sequence[str], sources: Sequence[str], kept: Path, *, with_coverage: bool
    ) -> Ended:
        """Run these test files on the unbroken project; ``kept`` gets what coverage saw."""
        with _a_place() as place:
            coverage = place / "coverage"
            errand = {"coverage": str(coverage) if with_coverage else "", "sources": list(sources)}
            ended = await self._run(place, errand, tests, (), REHEARSAL_SECONDS_MAX)
            if coverage.exists():
                shutil.copy(coverage, kept)
        return ended

    @contextmanager
    def _broken(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        content = path.read_bytes()
        path.write_bytes(mutant.broken(content))
        try:
            yield
        finally:
            path.write_bytes(content)

    async def _run(
        self,
        place: Path,
        errand: Mapping[str, Any],
        files: Sequence[str],
        options: Sequence[str],
        seconds_max: float,
    ) -> Ended:
        told, timed_out, output = place / "told", place / "timed_out", place / "output"
        (place / "errand").write_text(
            json.dumps({**errand, "told": str(told), "timed_out": str(timed_out)})
        )
        words = [*PYTEST, *PLUGIN, "--errand", str(place / "errand"), *options, *files]
        with open(output, "wb") as file:
            process = await asyncio.create_subprocess_exec(
                *self._fence(place, self.root / "src"),
                sys.executable,
                *words,
                cwd=self.root,
                env=self._environment(place),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        is_late = False
        try:
            await asyncio.wait_for(process.wait(), seconds_max)
        except TimeoutError:
            is_late = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        assert process.returncode is not None
        return Ended(
            told=json.loads(_content(told) or "{}"),
            code=process.returncode,
            took_too_long=is_late or bool(_content(timed_out)),
            running=_content(told.with_suffix(".running")),
            output=_content(output),
        )

    def _environment(self, place: Path) -> dict[str, str]:
        """This copy's sources, and places that go away with the run."""
        temporary = place / "t"
        temporary.mkdir()
        ours = {
            "PYTHONPATH": os.pathsep.join([str(self.root / "src"), str(INSIDE)]),
            "TMPDIR": str(temporary),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
            # The others know no contexts that are switched by hand.
            "COVERAGE_CORE": "ctrace",
        }
        # Of a pytest that this one may have been started by.
        others = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return others | ours


def _judged(ended: Ended) -> tuple[str, str]:
    """The outcome and by whom; whatever stops pytest before its end has been noticed too."""
    if ended.took_too_long:
        return TIMED_OUT, ended.running
    if not ended.told:
        if ended.code == NO_FENCE:
            return NOT_RUN, "there is no fence around it"
        return CAUGHT, ended.running or "pytest did not start"
    if ended.told["status"] in COULD_NOT_RUN:
        return NOT_RUN, last_line(ended.output)
    if ended.told["status"] == 0:
        return SURVIVED, ""
    return CAUGHT, ended.told["failed"]


def last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _files_of(tests: Mapping[str, float]) -> list[str]:
    """Each file once, in the order of its first test."""
    return list(dict.fromkeys(map(file_of, tests)))


def file_of(test: str) -> str:
    return test.partition("::")[0]


@contextmanager
def _a_place() -> Iterator[Path]:
    """A directory with a short name, for sockets are made in it; logs may still be written to it
    while it is removed."""
    with TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def _content(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
