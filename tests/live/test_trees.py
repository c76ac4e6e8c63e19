"""Trees are removed whatever their modes, and nothing that is not in them."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dataward.live.leftovers import end_leftovers
from dataward.live.trees import remove_tree


def a_closed_tree(top: Path, mode: int) -> Path:
    """Three directories within each other, a file in each, closed from the innermost outwards."""
    places = [top, top / "b", top / "b" / "c"]
    places[-1].mkdir(parents=True)
    for place in reversed(places):
        (place / "file").touch()
        place.chmod(mode)
    return top


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o222, 0o444, 0o555, 0o755])
def test_a_tree_goes_whatever_its_modes_are(tmp_path, mode):
    tree = a_closed_tree(tmp_path / "a", mode)

    remove_tree(tree)

    assert os.listdir(tmp_path) == []


def test_what_a_link_leads_to_stays_as_it_is(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    other.chmod(0o755)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(other)
    a_closed_tree(tmp_path / "a" / "closed", 0o000)

    remove_tree(tmp_path / "a")

    assert os.listdir(tmp_path) == ["other"]
    assert os.listdir(other) == ["file"]
    assert other.stat().st_mode & 0o777 == 0o755


def test_a_link_in_place_of_the_tree_is_an_error_and_its_target_stays_as_it_is(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o755)
    (tmp_path / "a").symlink_to(other)

    with pytest.raises(OSError, match="symbolic link"):
        remove_tree(tmp_path / "a")

    assert other.stat().st_mode & 0o777 == 0o755


def test_a_tree_that_is_not_there_is_no_error(tmp_path):
    remove_tree(tmp_path / "a")

    assert os.listdir(tmp_path) == []


def test_what_cannot_be_removed_is_named_and_the_rest_goes(tmp_path, monkeypatch):
    tree = a_closed_tree(tmp_path / "a", 0o555)
    tree.chmod(0o755)
    (tree / "theirs").touch()
    monkeypatch.setattr(os, "unlink", refusing("theirs", os.unlink))

    with pytest.raises(PermissionError, match="theirs"):
        remove_tree(tree)

    assert os.listdir(tree) == ["theirs"]


def refusing(name: str, unlink: Callable[..., None]) -> Callable[..., None]:
    """As the system refuses to remove what another user made: a test has no other user."""

    def unlink_others(path: str, **options: int) -> None:
        if os.path.basename(path) == name:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        unlink(path, **options)

    return unlink_others


def test_private_directories_of_a_run_that_was_killed_go_whatever_their_modes_are(tmp_path):
    work = tmp_path / "work"
    a_closed_tree(work / "n0", 0o000)

    end_leftovers(work)

    assert not work.exists()
