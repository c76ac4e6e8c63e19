"""Removes what runs have left behind, one run directory at a time."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dataward.cli.complaints import complain, visible
from dataward.cli.exit_codes import ExitCode
from dataward.cli.left_behind import everything_in, leftovers_of, old_record
from dataward.cli.output import counted, stderr_console, stdout_console
from dataward.errors import OutputError, SettingError
from dataward.model.quantities import show_bytes
from dataward.runs.run_directory import NoRunError, RunDirectory
from dataward.stores.journal import DirectoryInUse

Named = tuple[RunDirectory, str]
"""A run directory, and the number of one run in it, or "" for the whole directory."""


class Cleaned(NamedTuple):
    """What was removed of one run directory, or would be: how many, by what they are."""

    freed_bytes: int
    removed: dict[str, int]


def named_run(name: str, *, whole: bool) -> Named:
    path = Path(name)
    directory, number = RunDirectory(path), ""
    if path.name.isdigit() and RunDirectory(path.parent).exists():
        directory, number = RunDirectory(path.parent), path.name
        if whole:
            raise SettingError(f"--all removes whole run directories; name {path.parent}")
        if not path.is_dir():
            raise NoRunError(f"{path.parent} has no run {number}; 'dataward runs' lists them")
        if directory.runs() and directory.latest().path.name == number:
            raise SettingError(
                f"{name} is the latest run of {path.parent} and stays; --all removes all of it"
            )
    if not directory.exists():
        raise NoRunError(f"{name} is not a run directory; 'dataward runs' lists those that exist")
    if directory.path.is_symlink():
        raise SettingError(f"{name} is a symbolic link; name what it points to")
    return directory, number


def all_here() -> list[Named]:
    here = Path()
    places = [here, *sorted(p for p in here.iterdir() if p.is_dir() and not p.is_symlink())]
    return [(place, "") for place in map(RunDirectory, places) if place.exists()]


def ask(found: Sequence[Named]) -> None:
    if not sys.stdin.isatty():
        raise SettingError("--all removes outputs too; add --yes if that is meant")
    names = ", ".join(visible(directory.path) for directory, _ in found)
    question = f"Remove {names} with all runs and outputs? [y/N] "
    stderr_console().print(question, end="", soft_wrap=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        complain("nothing was removed")
        raise SystemExit(ExitCode.FAILED)


def cleaned(
    directory: RunDirectory, number: str, *, whole: bool, dry: bool, quiet: bool = False
) -> Cleaned | None:
    """What was removed, or None if the directory is in use and was left alone."""
    try:
        with _locked(directory):
            if whole:
                found = everything_in(directory)
            else:
                found = old_record(directory, number) if number else leftovers_of(directory)
            counts = {noun: len(paths) for noun, paths in found.paths.items() if paths}
            told = Cleaned(found.room_bytes(), counts)
            for sentence in found.warnings:
                stderr_console().print(f"warning: {visible(sentence)}", soft_wrap=True)
            if not quiet:
                _tell(directory, told, dry=dry)
            if not dry:
                found.remove()
            return told
    except DirectoryInUse as error:
        complain(f"{error}; it is left alone")
        return None
    except OSError as error:
        raise OutputError(str(error.filename or directory.path), f"{error.strerror}") from error


@contextmanager
def _locked(directory: RunDirectory) -> Iterator[None]:
    lock = directory.lock()
    try:
        yield
    finally:
        lock.release()


def _tell(directory: RunDirectory, told: Cleaned, *, dry: bool) -> None:
    what = ", ".join(counted(count, noun) for noun, count in told.removed.items())
    done = "would remove" if dry else "removing"
    said = f"{done} {what} ({show_bytes(told.freed_bytes)})" if what else "nothing to remove"
    stdout_console().print(f"{visible(directory.path)}: {said}", soft_wrap=True)
