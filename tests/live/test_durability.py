"""Files on their way to the disk: a few one by one, many with the whole file system."""

import os
from pathlib import Path

import pytest

from dataward.live import durability
from dataward.live.durability import SYNC_ALL_FILES, replace_content, sync_files, sync_path
from power.small_cuts import PLACE, cut_at_the_end, cut_everywhere, recorded_lines
from power.tracing import why_impossible


@pytest.fixture
def synced(monkeypatch):
    """The names of what is synced by itself, and what the whole file system is synced for."""
    seen = []
    real = os.fsync

    def fsync(file):
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def some_files(count):
    paths = [Path(f"f{i}").absolute() for i in range(count)]
    for path in paths:
        path.write_bytes(b"x")
    return [str(path) for path in paths]


def test_a_file_or_a_directory_is_synced_by_itself(synced):
    (path,) = some_files(1)

    sync_path(path)
    sync_path(os.path.dirname(path))

    assert synced == ["f0", os.path.basename(os.getcwd())]


def test_a_few_files_are_synced_one_by_one(synced):
    sync_files(some_files(SYNC_ALL_FILES - 1))

    assert synced == [f"f{i}" for i in range(SYNC_ALL_FILES - 1)]


def test_many_files_are_synced_with_the_whole_file_system(synced):
    sync_files(some_files(SYNC_ALL_FILES))

    assert synced == []


def test_where_the_file_system_cannot_be_synced_many_files_are_one_by_one(synced, monkeypatch):
    monkeypatch.setattr(durability, "_sync_file_system_of", lambda directory: False)

    sync_files(some_files(SYNC_ALL_FILES))

    assert len(synced) == SYNC_ALL_FILES


def test_a_file_that_is_gone_is_passed_over(synced):
    paths = some_files(3)
    os.unlink(paths[1])

    sync_files(paths)

    assert synced == ["f0", "f2"]


# --- new content for a file ----------------------------------------------------------------------

REPLACING = (
    "from pathlib import Path\n"
    "from dataward.live.durability import replace_content\n"
    "replace_content(Path('facts'), b'new')\n"
)
needs_recorder = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())


def test_new_content_is_whole_when_it_is_synced_and_has_its_name_after_that(monkeypatch):
    path, seen = Path("facts").absolute(), []
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(content_of(file, path)))

    replace_content(path, b"new")

    assert seen == [(b"new", b"old"), (None, b"new")]


def content_of(file: int, path: Path) -> tuple[bytes | None, bytes]:
    """What is in an open file, or None if it is a directory, and what is at the path."""
    link = Path(f"/proc/self/fd/{file}")
    return None if link.is_dir() else link.read_bytes(), path.read_bytes()


@needs_recorder
def test_a_power_cut_leaves_the_old_content_or_the_new_and_after_that_the_new():
    PLACE.mkdir()
    (PLACE / "facts").write_bytes(b"old")
    recording = recorded_lines(REPLACING)

    left = {(PLACE / "facts").read_bytes() for _ in cut_everywhere(recording)}
    cut_at_the_end(recording)

    assert left == {b"old", b"new"}
    assert (PLACE / "facts").read_bytes() == b"new"
