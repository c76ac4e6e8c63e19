"""Cuts the power of a recorded run anywhere, lets dataward go on, and holds it to its promises."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from power.disk import Disk, Tree
from power.effects import Recording, Said, Wrote
from power.layout import Listing, lay_out, listing, listing_of
from power.promises import (
    OUTPUTS,
    RUN,
    Promise,
    Stage,
    digests_in,
    promise_at,
    results_in,
    stages_of,
)
from power.scenarios import LOG, PLACE, Scenario
from power.survival import EXTREMES, Survival, drawn, what_is_left
from runs.real_runs import Ended

Run = Callable[..., Ended]

# What --resume may answer, and what then must work: the same without it.
NOTHING_TO_RESUME = ("holds no run", "is complete, so there is nothing to resume")
UNREAD = (f"{RUN}/work/", f"{RUN}/1/logs/", f"{RUN}/2/logs/")  # whatever is in there
SHOWN = 10  # effects before a cut, when something is wrong


@dataclass(frozen=True)
class Cut:
    """The power goes after so many effects, and this much of what was unsafe survives."""

    effects: int
    survival: Survival


def every_cut(stage: Stage, parts: int) -> Iterator[Cut]:
    """Every point with each extreme, and with so many parts drawn."""
    for effects in range(stage.begin, stage.end + 1):
        drawn_here = [drawn(1000 * effects + part) for part in range(parts)]
        yield from (Cut(effects, survival) for survival in (*EXTREMES, *drawn_here))


def cuts_after_words(recording: Recording, stage: Stage, *survivals: Survival) -> list[Cut]:
    """A cut just after each thing that the run has said, and after its last effect."""
    effects = range(stage.begin + 1, stage.end + 1)
    said = [n for n in effects if isinstance(recording.effects[n - 1], Said) or n == stage.end]
    return [Cut(number, survival) for number in said for survival in survivals]


def some_cuts(stage: Stage, count: int, seed: int) -> list[Cut]:
    """So many cuts, drawn; half of them of an extreme kind."""
    random = Random(seed)
    cuts = []
    for number in range(count):
        effects = random.randint(stage.begin, stage.end)
        survival = EXTREMES[number // 2 % len(EXTREMES)] if number % 2 else drawn(number)
        cuts.append(Cut(effects, survival))
    return sorted(cuts, key=lambda cut: cut.effects)


class Wrong(Exception):  # noqa: N818 - what is wrong after a power cut
    """A promise is broken."""


@dataclass
class Campaign:
    """Tries cuts of one recording, below the current directory; what is wrong is in `problems`."""

    scenario: Scenario
    recording: Recording
    run: Run
    problems_max: int = 20
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen: set[int] = set()
        self._scratch = Path("scratch").absolute()
        self._scratch.mkdir()
        self._place, self._log = PLACE.absolute(), LOG.absolute()
        self.stages = stages_of(self.recording, self.scenario, self._scratch)

    def try_all(self, stage: Stage, cuts: Iterable[Cut]) -> None:
        """Try cuts, in order of effects; what looks like a cut before it is not tried again."""
        disk, applied = Disk(), 0
        for cut in cuts:
            for effect in self.recording.effects[applied : cut.effects]:
                disk.apply(effect)
            applied = cut.effects
            tree = what_is_left(disk, cut.survival)
            promise = promise_at(self.recording, stage, cut.effects)
            key = _key(tree, promise)
            self.counts["cuts"] += 1
            if key in self._seen or len(self.problems) >= self.problems_max:
                continue
            self._seen.add(key)
            try:
                self._try(tree, stage, promise)
            except Wrong as wrong:
                self.problems.append(f"{wrong}\n{self._shown(cut)}")

    def _try(self, tree: Tree, stage: Stage, promise: Promise) -> None:
        self.counts["states"] += 1
        lay_out(tree, self._place)
        if promise.is_complete:
            self.counts["after the end"] += 1
            _compare("outputs of a complete run", results_in(tree), stage.results)
        _check_whole(results_in(tree), (stage.results, stage.results_before))
        self._log.write_text("")
        self._go_on()
        ran = Counter(self._log.read_text().split())
        again = sorted(promise.complete_tasks & ran.keys())
        if again:
            raise Wrong(f"run again, though reported as complete: {again}")
        self.counts["tasks run"] += ran.total()
        self._check_end(stage)
        if self.counts["states"] % 5 == 0:
            self._check_rerun(stage)

    def _go_on(self) -> None:
        os.chdir(self._place)
        try:
            end = self._ask("--resume")
            if any(words in end.err for words in NOTHING_TO_RESUME):
                self.counts["nothing to resume"] += 1
                end = self._ask()
        finally:
            os.chdir(self._place.parent)
        if end.code or end.facts["state"] != "complete":
            raise Wrong(f"it did not go on: {end.code} {end.err} {end.facts.get('failures')}")

    def _ask(self, *more: str) -> Ended:
        return self.run(Path("w.json"), *self.scenario.options, *more)

    def _check_end(self, stage: Stage) -> None:
        _compare("outputs", _results(self._place), stage.results)
        _compare("digests", digests_in(self._place / RUN), stage.digests)

    def _check_rerun(self, stage: Stage) -> None:
        """Once more, with nothing changed."""
        self.counts["run once more"] += 1
        self._log.write_text("")
        os.chdir(self._place)
        try:
            end = self._ask()
        finally:
            os.chdir(self._place.parent)
        ran = self._log.read_text().split()
        if end.code or ran:
            raise Wrong(f"a run once more, with nothing changed: {end.code} {end.err} ran {ran}")
        self._check_end(stage)

    def _shown(self, cut: Cut) -> str:
        first = max(0, cut.effects - SHOWN)
        lines = [f"  cut after {cut.effects} effects; {cut.survival}; the last of them:"]
        for number, effect in enumerate(self.recording.effects[first : cut.effects], first + 1):
            shown = repr(effect)
            if isinstance(effect, Wrote):
                shown = f"Wrote({effect.item}, {effect.offset}, {effect.content[:60]!r}...)"
            lines.append(f"    {number} {shown}")
        return "\n".join(lines)


def _key(tree: Tree, promise: Promise) -> int:
    left = {path: facts for path, facts in listing_of(tree).items() if not path.startswith(UNREAD)}
    return hash((tuple(left.items()), promise))


def _results(place: Path) -> Listing:
    found = listing(place / OUTPUTS) if (place / OUTPUTS).is_dir() else {}
    return {path: (*facts[:4], "") for path, facts in found.items()}


def _compare(what: str, found: dict[str, object], meant: dict[str, object]) -> None:
    odd = sorted(k for k in found.keys() | meant.keys() if found.get(k) != meant.get(k))
    if odd:
        shown = [(k, str(found.get(k))[:80], str(meant.get(k))[:80]) for k in odd[:3]]
        raise Wrong(f"{what} differ: {shown}")


def _check_whole(found: Listing, known: Sequence[Listing]) -> None:
    """Whoever looks into outputs/ before anything goes on finds whole files only."""
    for path, (kind, _, content, _, _) in found.items():
        wholes = [listed[path][2] for listed in known if path in listed]
        if kind == "file" and wholes and content not in wholes:
            raise Wrong(f"outputs/{path} is torn: {len(content)} bytes of {list(map(len, wholes))}")
