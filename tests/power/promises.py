"""What a recorded run has promised up to any of its effects, told from what it said."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataward.runs.outcomes import load_outcomes
from power.disk import Disk, Tree
from power.effects import Effect, Recording, Said, SyncedAll
from power.layout import Listing, lay_out, listing_of
from power.scenarios import LOG, REPORTS, SAID, Scenario
from power.survival import EVERYTHING, what_is_left

RUN = "w.run"
OUTPUTS = f"{RUN}/outputs/"
Digests = dict[str, dict[str, str]]
"""The digests of what each task has written, by task and file."""


@dataclass(frozen=True)
class Stage:
    """A run from its beginning to its end, by numbers of effects, and what it comes to."""

    begin: int
    end: int
    results: Listing  # what is in outputs/ in the end
    results_before: Listing  # what an earlier run had left there
    digests: Digests
    has_to_run: frozenset[str]  # the tasks that ran, for nothing else was due


@dataclass(frozen=True)
class Promise:
    """What a run has said by some moment."""

    complete_tasks: frozenset[str]  # reported, or done by an earlier run
    is_complete: bool


def stages_of(recording: Recording, scenario: Scenario, scratch: Path) -> list[Stage]:
    """The runs that were recorded; one that was killed and resumed counts as one."""
    if not scenario.rerun:
        return [_stage(recording, _beginning(recording), recording.ends[-1], {}, scratch)]
    first = _stage(recording, _beginning(recording), recording.ends[0], {}, scratch)
    second = _stage(recording, recording.ends[1], recording.ends[2], first.results, scratch)
    return [first, second]


def _beginning(recording: Recording) -> int:
    """How many effects tell of files that were there before anything ran."""
    return 1 + recording.effects.index(SyncedAll())


def _stage(recording: Recording, begin: int, end: int, before: Listing, scratch: Path) -> Stage:
    tree = tree_at(recording.effects[:end])
    lay_out(tree, scratch)
    return Stage(
        begin,
        end,
        results_in(tree),
        before,
        digests_in(scratch / RUN),
        frozenset(said_in(recording.effects[begin:end], LOG).split()),
    )


def promise_at(recording: Recording, stage: Stage, effects: int) -> Promise:
    said = recording.effects[stage.begin : effects]
    reported = frozenset(said_in(said, REPORTS).split())
    is_complete = "power: complete\n" in said_in(said, SAID)
    return Promise(frozenset(stage.digests) - stage.has_to_run | reported, is_complete)


def said_in(effects: Sequence[Effect], where: Path) -> str:
    return "".join(e.text for e in effects if isinstance(e, Said) and e.where == where.name)


def tree_at(effects: Sequence[Effect]) -> Tree:
    """What programs see after these effects."""
    disk = Disk()
    for effect in effects:
        disk.apply(effect)
    return what_is_left(disk, EVERYTHING)


def results_in(tree: Tree) -> Listing:
    """The files in outputs/, by their names there; whether a file has other names is no matter."""
    return {
        path.removeprefix(OUTPUTS): (kind, mode, content, target, "")
        for path, (kind, mode, content, target, _) in listing_of(tree).items()
        if path.startswith(OUTPUTS)
    }


def digests_in(run: Path) -> Digests:
    return {
        task: {file.id: file.digest for file in outcome.outputs}
        for task, outcome in load_outcomes(run / "outcomes").items()
    }
