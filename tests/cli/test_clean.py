"""`dataward clean`: frees room, and never what somebody may still want."""

import json
import os
from pathlib import Path

import pytest

from cli.conftest import Dataward
from cli.recorded_runs import a_good_run, a_recorded_run, write_log
from dataward.cli import cleaning
from dataward.cli.exit_codes import ExitCode
from dataward.live.sandbox import place_in_depot
from dataward.model.operations import OutputFile
from dataward.model.workflow import FileId, TaskId
from dataward.runs.outcomes import Outcome, save_outcomes
from dataward.runs.run_directory import RunDirectory

USED, UNUSED = "ab" * 32, "cd" * 32


def a_used_directory(name: str = "diamond.run") -> RunDirectory:
    """Three runs, a private directory left by a task, a file in use and two that are not."""
    for _ in range(3):
        record = a_recorded_run(a_good_run(), name)
        write_log(record, "left", "n0.1.1", "out", b"x" * 1000)
    directory = RunDirectory(Path(name))
    put(directory.work / "n0" / "scratch", 5000)
    put(directory.outputs / "out", 50)
    put(place_of(directory, USED), 100)
    put(place_of(directory, UNUSED), 200)
    put(directory.depot / "n0" / "incoming" / "17.1", 300)
    outcome = Outcome("recipe", (), (OutputFile(FileId("a"), 100, USED),))
    save_outcomes(directory.outcomes, {TaskId("split"): outcome})
    return directory


def place_of(directory: RunDirectory, digest: str) -> Path:
    """Where a depot keeps a file with this content."""
    return Path(place_in_depot(str(directory.depot / "n0"), digest, "17-abcd-1"))


def put(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)


def everything(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*") if path.name != "lock"}


def size_of(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


# --- what goes and what stays --------------------------------------------------------------------


def test_old_runs_work_and_unused_files_go_and_the_rest_stays(dataward: Dataward) -> None:
    directory = a_used_directory()
    kept = everything(directory.path / "3")

    said = dataward("clean", "diamond.run")

    assert said.code == ExitCode.OK
    assert "diamond.run: removing 2 old runs, 1 work directory, 2 unused files" in said.out
    assert [run.number for run in directory.runs()] == [3]
    assert everything(directory.path / "3") == kept
    assert list(directory.work.iterdir()) == []
    left = [path.name for path in directory.depot.rglob("*") if path.is_file()]
    assert left == [place_of(directory, USED).name]
    assert (directory.outputs / "out").exists()
    assert directory.outcomes.exists()


def test_the_room_freed_is_told(dataward: Dataward) -> None:
    directory = a_used_directory()
    old = size_of(directory.path / "1") + size_of(directory.path / "2")
    before = size_of(directory.path)

    said = dataward("clean")

    freed = before - size_of(directory.path)
    assert abs(freed - (old + 5000 + 200 + 300)) < 20  # the lock file has come into being
    assert said.out.splitlines()[-1] == f"{(old + 5500) / 1000:.1f} kB freed"


def test_what_goes_is_told_as_json(dataward: Dataward) -> None:
    a_used_directory()
    would, said = (
        json.loads(dataward("clean", "diamond.run", "--json", *more).out)
        for more in (["--dry-run"], [])
    )

    assert said == {**would, "dry_run": False}
    [told] = said["directories"]
    assert told["path"] == "diamond.run"
    assert told["removed"] == {"old run": 2, "work directory": 1, "unused file": 2}
    assert told["freed_bytes"] == said["freed_bytes"] > 5500
    assert not told["in_use"]


def test_with_json_a_directory_in_use_is_said_to_be_so(dataward: Dataward) -> None:
    directory = a_used_directory()
    lock = directory.lock()

    said = dataward("clean", "diamond.run", "--json")
    lock.release()

    assert said.code == ExitCode.FAILED
    told = {"path": "diamond.run", "in_use": True, "removed": {}, "freed_bytes": 0}
    assert json.loads(said.out)["directories"] == [told]


def test_nothing_to_clean_is_an_empty_list_in_json(dataward: Dataward) -> None:
    told = {"dry_run": False, "freed_bytes": 0, "directories": []}

    assert json.loads(dataward("clean", "--json").out) == told


def test_a_file_with_a_link_elsewhere_frees_nothing(dataward: Dataward) -> None:
    directory = a_used_directory()
    unused = place_of(directory, UNUSED)
    put(unused, 10_000_000)
    os.link(unused, "mine")

    said = dataward("clean")

    assert "MB" not in said.out
    assert not unused.exists()
    assert Path("mine").stat().st_size == 10_000_000


def test_all_directories_here_are_cleaned_if_none_is_named(dataward: Dataward) -> None:
    directories = [a_used_directory("a.run"), a_used_directory("b.run")]

    dataward("clean")

    assert [len(directory.runs()) for directory in directories] == [1, 1]


def test_one_old_run_alone_may_be_named(dataward: Dataward) -> None:
    directory = a_used_directory()

    said = dataward("clean", "diamond.run/1")

    assert said.code == ExitCode.OK
    assert [run.number for run in directory.runs()] == [2, 3]
    assert list(directory.work.iterdir())


def test_a_dry_run_says_the_same_and_removes_nothing(dataward: Dataward) -> None:
    directory = a_used_directory()
    before = everything(directory.path)

    said = dataward("clean", "--dry-run")

    assert "would remove 2 old runs, 1 work directory, 2 unused files" in said.out
    assert said.out.splitlines()[-1].endswith("would be freed")
    assert everything(directory.path) == before
    dry_all = dataward("clean", "--all", "--dry-run")
    assert "would remove 1 run directory" in dry_all.out
    assert everything(directory.path) == before


def test_cleaning_twice_finds_nothing_the_second_time(dataward: Dataward) -> None:
    a_used_directory()
    dataward("clean")

    said = dataward("clean")

    assert said.out == "diamond.run: nothing to remove\n0 B freed\n"


def test_files_of_a_run_that_was_killed_stay_for_it_to_go_on(dataward: Dataward) -> None:
    directory = a_used_directory()
    directory.store.mkdir()

    dataward("clean")

    assert (place_of(directory, UNUSED)).exists()
    assert directory.store.exists()
    assert list(directory.work.iterdir()) == []


def test_files_stay_if_nobody_can_tell_which_are_used(dataward: Dataward) -> None:
    directory = a_used_directory()
    directory.outcomes.write_bytes(b"nonsense")

    said = dataward("clean")

    assert said.code == ExitCode.OK
    assert "all its files are kept" in said.err
    assert (place_of(directory, UNUSED)).exists()
    assert len(directory.runs()) == 1


def test_a_record_that_was_never_finished_goes_too(dataward: Dataward) -> None:
    directory = a_used_directory()
    (directory.path / "2" / "run.json").unlink()

    dataward("clean")

    assert not (directory.path / "2").exists()


def test_links_are_removed_and_not_followed(dataward: Dataward) -> None:
    directory = a_used_directory()
    put(Path("precious") / "file", 10)
    (directory.work / "link").symlink_to(Path("precious").absolute())
    (directory.depot / "n0" / "link").symlink_to(Path("precious").absolute())

    dataward("clean")

    assert Path("precious/file").exists()
    assert not (directory.work / "link").is_symlink()
    assert not (directory.depot / "n0" / "link").is_symlink()


@pytest.mark.parametrize("options", [[], ["--all", "--yes"]])
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o555])
def test_directories_that_a_task_has_closed_go_too(
    dataward: Dataward, options: list[str], mode: int
) -> None:
    directory = a_used_directory()
    put(directory.work / "n0" / "0" / "d" / "e" / "file", 10)
    for place in ("0/d/e", "0/d", "0"):
        (directory.work / "n0" / place).chmod(mode)

    said = dataward("clean", "diamond.run", *options)

    assert said.code == ExitCode.OK, said.err
    assert not (directory.work / "n0").exists()
    assert directory.path.exists() is not bool(options)


# --- all of it -----------------------------------------------------------------------------------


def test_whole_directories_go_with_all_and_yes(dataward: Dataward) -> None:
    a_used_directory("a.run")
    a_used_directory("b.run")

    said = dataward("clean", "a.run", "--all", "--yes")

    assert said.code == ExitCode.OK
    assert not Path("a.run").exists()
    assert Path("b.run").exists()
    assert "kB freed" in said.out


def test_without_a_terminal_all_needs_yes(dataward: Dataward) -> None:
    directory = a_used_directory()
    before = everything(directory.path)

    said = dataward("clean", "--all")

    assert said.code == ExitCode.USAGE
    assert "add --yes" in said.err
    assert everything(directory.path) == before


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("n\n", False), ("", False)])
def test_on_a_terminal_somebody_is_asked(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch, answer: str, gone: bool
) -> None:
    a_used_directory()
    monkeypatch.setattr(cleaning.sys, "stdin", Typed(answer))

    said = dataward("clean", "diamond.run", "--all")

    assert "Remove diamond.run with all runs and outputs? [y/N]" in said.err
    assert Path("diamond.run").exists() is not gone
    assert said.code == (ExitCode.OK if gone else ExitCode.FAILED)


class Typed:
    """A terminal at which somebody has typed a line, or closed it."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._line


def test_a_directory_can_be_removed_from_within(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_used_directory()
    place = Path("diamond.run").absolute()
    monkeypatch.chdir(place)

    said = dataward("clean", ".", "--all", "--yes")

    assert said.code == ExitCode.OK
    assert not place.exists()


# --- what is never touched -----------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--all", "--yes"]])
def test_a_directory_in_use_is_left_alone(dataward: Dataward, options: list[str]) -> None:
    directory = a_used_directory()
    other = a_used_directory("other.run")
    before = everything(directory.path)
    lock = directory.lock()

    said = dataward("clean", "diamond.run", "other.run", *options)
    lock.release()

    assert said.code == ExitCode.FAILED
    assert f"diamond.run is in use by process {os.getpid()}" in said.err
    assert everything(directory.path) == before
    assert not (other.path / "1").exists()


def test_a_directory_in_use_that_nobody_named_is_no_failure(dataward: Dataward) -> None:
    lock = a_used_directory().lock()

    said = dataward("clean")
    lock.release()

    assert said.code == ExitCode.OK
    assert "it is left alone" in said.err


def test_what_is_no_run_directory_is_never_touched(dataward: Dataward) -> None:
    put(Path("mine") / "1" / "run.json", 10)
    put(Path("mine") / "work" / "file", 10)
    before = everything(Path())

    here = dataward("clean", "--all", "--yes")
    named = dataward("clean", "mine", "--all", "--yes")
    nowhere = dataward("clean", "nowhere")

    assert everything(Path()) == before
    assert (here.code, here.err) == (ExitCode.OK, "there is no run directory here\n")
    assert named.code == nowhere.code == ExitCode.BAD_INPUT
    assert "mine is not a run directory" in named.err


def test_one_wrong_name_and_nothing_is_removed(dataward: Dataward) -> None:
    directory = a_used_directory()

    said = dataward("clean", "diamond.run", "nowhere")

    assert said.code == ExitCode.BAD_INPUT
    assert len(directory.runs()) == 3


def test_the_latest_run_is_not_removed_by_itself(dataward: Dataward) -> None:
    directory = a_used_directory()

    latest = dataward("clean", "diamond.run/3")
    whole = dataward("clean", "diamond.run/1", "--all", "--yes")
    missing = dataward("clean", "diamond.run/9")

    assert latest.code == whole.code == ExitCode.USAGE
    assert "is the latest run" in latest.err
    assert "name diamond.run" in whole.err
    assert missing.code == ExitCode.BAD_INPUT
    assert len(directory.runs()) == 3


def test_a_link_to_a_directory_is_not_followed(dataward: Dataward) -> None:
    directory = a_used_directory("elsewhere/diamond.run")
    Path("link").symlink_to(directory.path.absolute())

    here = dataward("clean", "--all", "--yes")
    named = dataward("clean", "link", "--all", "--yes")

    assert here.err == "there is no run directory here\n"
    assert named.code == ExitCode.USAGE
    assert len(directory.runs()) == 3
