"""The bench itself: the draw, the rehearsal, the trials of what is not known yet, the tables."""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from rich.console import Console

from bench.mutants.draw import Mutant, draw
from bench.mutants.fence import fenced, why_no_fence
from bench.mutants.records import Judgements, Records, Trial, read_judgements, write_unjudged
from bench.mutants.rehearsal import CannotRehearse, Rehearsal, has_coverage, rehearse
from bench.mutants.rooms import Project
from bench.mutants.tables import print_survivors, rooms_table, unjudged
from bench.mutants.trials import CAUGHT, NOT_RUN, SURVIVED, TIMED_OUT, Copy, Fence

REPOSITORY = Path(__file__).parents[2]
JUDGED = Path(__file__).parent / "judged.toml"
STOPPED = 130  # what shells say of a command that Ctrl-C has ended


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Options:
    """What to draw, and how to try it."""

    count: int = 300
    seed: int = 1
    # Patterns of the files to draw from, as ``PurePath.match`` reads them; none: all of the rooms.
    files: tuple[str, ...] = ()
    workers: int = 1
    with_seeds: bool = False
    # Try again what is known to have survived and was not judged: tests may have come since.
    again: bool = False
    fresh: bool = False


@dataclass
class Campaign:
    """Trials under way; whatever ends them, those that are over are on the disk."""

    project: Project
    options: Options
    kept: Path
    fence: Fence = fenced
    say: Callable[[str], None] = say
    judgements: Judgements = field(default_factory=lambda: Judgements([]))
    records: Records = field(init=False)
    drawn: list[Mutant] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.options.fresh:
            shutil.rmtree(self.kept, ignore_errors=True)
        self.records = Records(self.kept / "trials.jsonl")

    def run(self) -> list[Trial]:
        """Every trial of the draw that is known in the end; raises CannotRehearse.

        The draw is from a copy, so that nobody who edits the project meanwhile is in the way.
        """
        origin = Copy(self.project.root, self.kept / "copies" / "0", self.fence)
        options = self.options
        mutants = draw(origin.root, self.project.rooms, options.seed, options.files)
        self.drawn = list(islice(mutants, options.count))
        left = [mutant for mutant in self.drawn if not self._is_settled(mutant)]
        if left:
            self._say_what_is_left(len(left))
            asyncio.run(self._try_all(left, origin))
        return self.trials()

    def trials(self) -> list[Trial]:
        """What is known by now of what was drawn."""
        found = [self.records.get(mutant, with_seeds=False) for mutant in self.drawn]
        return [trial for trial in found if trial]

    def _is_settled(self, mutant: Mutant) -> bool:
        trial = self.records.get(mutant, with_seeds=self.options.with_seeds)
        if trial is None:
            return False
        is_over = trial.outcome != SURVIVED or bool(self.judgements.verdict(mutant))
        return is_over or not self.options.again

    def _say_what_is_left(self, left: int) -> None:
        known = len(self.drawn) - left
        self.say(f"{len(self.drawn)} mutants drawn by seed {self.options.seed}, {known} known")

    async def _try_all(self, left: Sequence[Mutant], origin: Copy) -> None:
        copies = [origin]
        for number in range(1, min(self.options.workers, len(left))):
            root = origin.root.with_name(str(number))
            copies.append(Copy(origin.root, root, self.fence))
        rehearsal = await self._rehearse(copies)
        progress = Progress(len(left), self.say)
        # One iterator for all: whoever is free takes the next.
        waiting = iter(left)
        async with asyncio.TaskGroup() as group:
            for copy in copies:
                group.create_task(self._try_some(copy, waiting, rehearsal, progress))

    async def _rehearse(self, copies: Sequence[Copy]) -> Rehearsal:
        if not has_coverage():
            self.say("without coverage (pip install --group mutants) all tests of a room are run")
        self.say("rehearsal, unless it is known: every test once, with nothing broken")
        with_seeds = self.options.with_seeds
        directory = self.kept / "rehearsals"
        rehearsal = await rehearse(self.project, copies, directory, with_seeds=with_seeds)
        for test in rehearsal.failed:
            self.say(f"left out, for it fails with nothing broken: {test}")
        return rehearsal

    async def _try_some(
        self, copy: Copy, waiting: Iterator[Mutant], rehearsal: Rehearsal, progress: "Progress"
    ) -> None:
        rooms = {room.name: room for room in self.project.rooms}
        for mutant in waiting:
            tests = rehearsal.tests_for(mutant, rooms[mutant.room])
            verdict = await copy.try_out(mutant, tests)
            trial = Trial(
                mutant, verdict.outcome, verdict.by, verdict.seconds, self.options.with_seeds
            )
            if verdict.outcome != NOT_RUN:
                self.records.add(trial)
            progress.add(trial)


@dataclass
class Progress:
    """A line for each trial: how many are over, how they ended, how long the others may take."""

    total: int
    say: Callable[[str], None]
    outcomes: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=monotonic)

    def add(self, trial: Trial) -> None:
        self.outcomes[trial.outcome] += 1
        done = self.outcomes.total()
        counted = [f"{self.outcomes[outcome]} {outcome}" for outcome in (CAUGHT, SURVIVED)]
        counted += [f"{self.outcomes[o]} {o}" for o in (TIMED_OUT, NOT_RUN) if self.outcomes[o]]
        seconds = (monotonic() - self.began) / done * (self.total - done)
        mutant = trial.mutant
        self.say(
            f"{done} of {self.total}: {', '.join(counted)}; {_in_words(seconds)} left; "
            f"{mutant.file}:{mutant.line} {trial.outcome} {trial.by}".rstrip()
        )


def run(out: Console, project: Project, options: Options) -> int:
    """The exit code. Ctrl-C ends with what is known so far."""
    judgements = read_judgements(JUDGED)
    with TemporaryDirectory() as place:
        why = why_no_fence(Path(place), project.root / "src")
    if why:
        say(f"broken code cannot be fenced in here, so none is run: {why}")
        return 1
    kept = project.root / "build" / "mutants"
    campaign = Campaign(project, options, kept, judgements=judgements)
    code = 0
    try:
        campaign.run()
    except KeyboardInterrupt:
        say("Stopped. What is known so far is kept; the next run goes on from here.")
        code = STOPPED
    except CannotRehearse as error:
        say(str(error))
        return 1
    report(out, campaign)
    return code


def report(out: Console, campaign: Campaign) -> None:
    trials, judgements = campaign.trials(), campaign.judgements
    out.print(rooms_table(trials, judgements))
    out.print(
        "The share is of those that a test could notice: neither equivalent nor only slower, as "
        "judged.toml has it. One that timed out is noticed.",
        highlight=False,
    )
    print_survivors(out, trials, judgements)
    write_unjudged(campaign.kept / "survivors.toml", unjudged(trials, judgements))


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
