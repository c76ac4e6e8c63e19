"""What is known of mutants: the trials so far, and what was said by hand about survivors."""

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from bench.mutants.draw import Identity, Mutant
from bench.mutants.trials import SURVIVED

EQUIVALENT, COSTS_TIME = "equivalent", "costs time"


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant and what became of it; ``with_seeds`` if tests that try many seeds were run too."""

    mutant: Mutant
    outcome: str
    by: str
    seconds: float
    with_seeds: bool


class Records:
    """A file that grows by a line for each trial: whoever breaks off loses only the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Identity, Trial] = {t.mutant.identity: t for t in self._read()}

    def get(self, mutant: Mutant, *, with_seeds: bool) -> Trial | None:
        """The last trial of the mutant, unless it survived and more tests are asked for now."""
        trial = self._known.get(mutant.identity)
        if trial and trial.outcome == SURVIVED and with_seeds and not trial.with_seeds:
            return None
        return trial

    def add(self, trial: Trial) -> None:
        self._known[trial.mutant.identity] = trial
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a") as file:
            file.write(json.dumps(asdict(trial)) + "\n")

    def _read(self) -> Iterator[Trial]:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                yield msgspec.json.decode(line, type=Trial)
            except msgspec.DecodeError:  # cut off, or written when a record had other fields
                continue


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why nobody could notice a mutant: it does the same, or it only takes longer."""

    file: str
    line: str
    becomes: str
    verdict: str
    reason: str


class Judgements:
    """Found by file, line and what the line became: moving the line elsewhere changes nothing."""

    def __init__(self, judgements: Iterable[Judgement]) -> None:
        self._judgements = {(each.file, each.line, each.becomes): each for each in judgements}

    def verdict(self, mutant: Mutant) -> str:
        found = self._judgements.get((mutant.file, mutant.before, mutant.after))
        return found.verdict if found else ""


def read_judgements(path: Path) -> Judgements:
    """Raises ValueError for one without a reason, or with a verdict that there is not."""
    judgements = msgspec.convert(tomllib.loads(path.read_text()).get("judged", []), list[Judgement])
    for each in judgements:
        if each.verdict not in (EQUIVALENT, COSTS_TIME) or not each.reason.strip():
            raise ValueError(
                f"{path.name}: {each.line!r} needs a reason and the verdict "
                f"{EQUIVALENT!r} or {COSTS_TIME!r}"
            )
    return Judgements(judgements)


def write_unjudged(path: Path, survivors: Iterable[Mutant]) -> None:
    """The survivors in the form of a judgement, for someone to add verdict and reason."""
    entries = [
        "\n".join(
            [
                "[[judged]]",
                f"file = {_quoted(mutant.file)}",
                f"line = {_quoted(mutant.before)}",
                f"becomes = {_quoted(mutant.after)}",
                'verdict = ""',
                'reason = ""',
            ]
        )
        for mutant in survivors
    ]
    path.write_text("\n\n".join(entries) + "\n")


def _quoted(text: str) -> str:
    """TOML's basic strings are JSON's."""
    return json.dumps(text, ensure_ascii=False)
