"""What earlier runs left, found again by content."""

import os
from pathlib import Path

import pytest
from blake3 import blake3

from dataward.live.depot_disk import Place
from dataward.live.sandbox import place_in_depot
from dataward.runs.deciding import Presence
from dataward.runs.input_digests import InputDigests
from dataward.runs.keeping import trim_depots
from dataward.runs.left_files import LeftFiles
from dataward.runs.outcomes import Outcome
from dataward.runs.publishing import Publisher
from dataward.runs.run_directory import RunDirectory

DIRECTORY = RunDirectory(Path("w.run"))
CONTENT = "a result"
DIGEST = blake3(CONTENT.encode()).hexdigest()


@pytest.fixture
def stored() -> Place:
    """A result that is still in the depot."""
    depot = DIRECTORY.depot / "n0"
    depot.mkdir(parents=True)
    path = Path(place_in_depot(str(depot), DIGEST, "1"))
    path.write_text(CONTENT)
    path.chmod(0o444)
    return Place(str(path), len(CONTENT), DIGEST, False)


def left(*, may_remove: bool = True) -> LeftFiles:
    return LeftFiles(DIRECTORY, InputDigests(Path("digests")), may_remove=may_remove)


def publish(place: Place) -> Path:
    Publisher(DIRECTORY.outputs, DIRECTORY.drafts).publish("o", place, stays=False)
    return DIRECTORY.outputs / "o"


def test_a_result_that_was_to_be_published_and_was_not_is_still_in_the_depot(stored):
    publish(stored).unlink()  # as a power cut leaves it: the mode has changed, the name is gone

    found = left().find("o", DIGEST)

    assert found is not None
    assert found.path == stored.path
    assert Path(found.path).stat().st_mode & 0o777 == 0o444
    assert left().find("o", DIGEST) == found


def test_looking_for_it_without_leave_changes_nothing(stored):
    publish(stored).unlink()

    assert left(may_remove=False).presence("o", DIGEST) is Presence.THERE

    assert Path(stored.path).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("may_remove", [True, False])
def test_what_was_still_coming_in_is_removed_if_that_is_allowed(stored, may_remove):
    incoming = DIRECTORY.depot / "n0" / "incoming" / "17.1"
    incoming.parent.mkdir()
    incoming.write_text("half of it")

    assert left(may_remove=may_remove).presence("o", DIGEST) is Presence.THERE

    assert incoming.exists() is not may_remove


def test_a_published_result_is_the_users_also_if_the_depot_still_has_it(stored):
    path = publish(stored)

    found = left().find("o", DIGEST)

    assert found is not None
    assert (found.path, found.outside) == (str(path), True)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_published_result_that_was_edited_or_moved_is_not_taken_back(stored):
    path = publish(stored)
    moved = path.rename(path.with_name("mine"))

    assert left().presence("o", DIGEST) is Presence.GONE
    moved.write_text("edited")
    assert left().presence("o", DIGEST) is Presence.GONE
    os.unlink(moved)
    assert left().presence("o", DIGEST) is Presence.GONE


def test_what_was_published_leaves_the_depot_in_the_end(stored):
    path = publish(stored)
    outcome = Outcome("", (), ())

    trim_depots(DIRECTORY.depot, {"t": outcome}, budget_bytes=1e9)

    assert not Path(stored.path).exists()
    assert path.read_text() == CONTENT


def test_what_was_still_coming_in_is_gone_when_a_run_has_ended(stored):
    (DIRECTORY.depot / "n0" / "incoming").mkdir()
    (DIRECTORY.depot / "n0" / "incoming" / "17.1").write_text("half of it")

    trim_depots(DIRECTORY.depot, {}, budget_bytes=1e9)

    assert not DIRECTORY.depot.exists()
