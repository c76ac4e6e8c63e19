"""Finds what nobody needs in a run directory, how much space it takes, and removes it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataward.errors import FormatError
from dataward.live.sandbox import digest_in
from dataward.live.trees import remove_tree
from dataward.runs.outcomes import load_outcomes
from dataward.runs.run_directory import RunDirectory

_MARKER = "dataward.json"
_LOCK = "lock"


@dataclass
class Leftovers:
    """Paths to remove, by what they are; they are removed in this order."""

    paths: dict[str, list[Path]]
    warnings: list[str] = field(default_factory=list)

    def room_bytes(self) -> int:
        """How much removing them frees. A file with another hard link elsewhere frees nothing.

        Files in directories that a task has closed are not counted: looking must change nothing.
        """
        links: dict[tuple[int, int], int] = {}
        freed = 0
        for path in (file for paths in self.paths.values() for top in paths for file in _walk(top)):
            try:
                found = path.lstat()
            except PermissionError:
                continue
            key = found.st_dev, found.st_ino
            links[key] = links.get(key, 0) + 1
            if links[key] == found.st_nlink:
                freed += found.st_size
        return freed

    def remove(self) -> None:
        """Remove all paths. On failure raises OSError; the paths after that one remain."""
        for paths in self.paths.values():
            for path in paths:
                _remove(path)


def leftovers_of(directory: RunDirectory) -> Leftovers:
    """Records of all runs but the latest, private directories of tasks, files no run can use.

    The caller must hold the directory's lock.
    """
    found = Leftovers({"old run": [], "work directory": [], "unused file": []})
    runs = directory.runs()
    latest = runs[-1].path.name if runs else ""
    for path in sorted(directory.path.iterdir()):
        if path.name.isdigit() and path.name != latest and _is_directory(path):
            found.paths["old run"].append(path)
    if _is_directory(directory.work):
        found.paths["work directory"] += sorted(directory.work.iterdir())
    found.paths["unused file"] += _unused_files(directory, found.warnings)
    return found


def old_record(directory: RunDirectory, number: str) -> Leftovers:
    return Leftovers({"old run": [directory.path / number]})


def everything_in(directory: RunDirectory) -> Leftovers:
    return Leftovers({"run directory": [directory.path.resolve()]})


def _unused_files(directory: RunDirectory, warnings: list[str]) -> list[Path]:
    """The files in the depots that are not an output of any known outcome.

    None if a store is still there: it may have further outcomes, which only the next run reads.
    """
    if directory.store.exists() or not _is_directory(directory.depot):
        return []
    try:
        outcomes = load_outcomes(directory.outcomes)
    except FormatError as error:
        warnings.append(f"{error}; all its files are kept")
        return []
    used = {output.digest for outcome in outcomes.values() for output in outcome.outputs}
    return sorted(path for path in _walk(directory.depot) if digest_in(path.name) not in used)


def _walk(top: Path) -> Iterator[Path]:
    """The files in and below a directory, or the file itself; links are not followed."""
    if not _is_directory(top):
        if os.path.lexists(top):
            yield top
        return
    for place, inside, names in os.walk(top):
        for name in names:
            yield Path(place, name)
        for name in inside:
            if os.path.islink(Path(place, name)):
                yield Path(place, name)


def _remove(path: Path) -> None:
    """Remove a path with all below it.

    The files that mark a run directory are removed last, so that `clean` can be repeated if it
    fails on the way.
    """
    if not _is_directory(path):
        path.unlink(missing_ok=True)
        return
    if os.path.exists(path / _MARKER):
        for inside in sorted(path.iterdir()):
            if inside.name not in (_MARKER, _LOCK):
                _remove(inside)
    remove_tree(path)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
