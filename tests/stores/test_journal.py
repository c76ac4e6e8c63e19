"""Frames in a file: what is read back after crashes, damage and disks that fail."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import FormatError
from dataward.stores.journal import (
    DirectoryInUse,
    DirectoryLock,
    Journal,
    is_abandoned,
    is_locked,
)

PAYLOADS = [b"first", b"", b"the second, a longer one", b"last"]
HEADER_BYTES = 36
FRAME_BYTES = 32  # besides the payload
SALT = slice(20, 28)


@pytest.fixture
def path(tmp_path, monkeypatch):
    unsynced(monkeypatch)
    return tmp_path / "journal"


def unsynced(monkeypatch) -> None:
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda file: None, raising=False)


def write(path: Path, payloads=PAYLOADS) -> bytes:
    """A journal of which the last payloads were appended; what the file then holds."""
    journal = Journal.create(path, payloads[:1])
    for payload in payloads[1:]:
        journal.append(payload)
    journal.close()
    return path.read_bytes()


def read(path: Path) -> list[bytes]:
    journal = Journal(path)
    try:
        return list(journal.frames())
    finally:
        journal.close()


def append_and_read(path: Path, payload: bytes) -> list[bytes]:
    journal = Journal(path)
    list(journal.frames())
    journal.append(payload)
    journal.close()
    return read(path)


def starts(payloads=PAYLOADS) -> list[int]:
    places = [HEADER_BYTES]
    for payload in payloads:
        places.append(places[-1] + FRAME_BYTES + len(payload))
    return places


@contextmanager
def no_file_longer_than(size_bytes: int):
    """The system's own limit: a write beyond it is cut short, and the next one fails."""
    before = getrlimit(RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    setrlimit(RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# --- reading back --------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_what_was_appended_is_read_back_in_order(payloads):
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as monkeypatch:
        unsynced(monkeypatch)
        path = Path(directory) / "journal"

        written = write(path, payloads)

        assert read(path) == payloads
        assert path.read_bytes() == written
        assert len(written) == starts(payloads)[-1]


def test_a_new_journal_has_no_half_done_state(path):
    write(path)

    assert [file.name for file in path.parent.iterdir()] == ["journal"]


# --- torn ends -----------------------------------------------------------------------------------


def test_a_last_frame_torn_at_any_byte_is_cut_off_and_the_journal_goes_on(path):
    whole = write(path)
    last = starts()[-2]
    for end in range(last + 1, len(whole)):
        path.write_bytes(whole[:end])

        journal = Journal(path)
        payloads = list(journal.frames())
        journal.append(b"more")
        journal.close()

        assert payloads == PAYLOADS[:-1]
        assert journal.cut_bytes == end - last
        assert read(path) == [*PAYLOADS[:-1], b"more"]


def test_a_last_frame_with_a_wrong_byte_anywhere_is_cut_off(path):
    whole = write(path)
    for place in range(starts()[-2], len(whole)):
        path.write_bytes(_flipped(whole, place))

        assert read(path) == PAYLOADS[:-1]
        assert path.read_bytes() == whole[: starts()[-2]]


def test_a_whole_journal_is_not_cut(path):
    write(path)
    journal = Journal(path)

    list(journal.frames())
    journal.close()

    assert journal.cut_bytes == 0


@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(min_size=1, max_size=400), shown=st.integers(0, 60))
def test_garbage_at_the_end_is_cut_off(garbage, shown):
    """With some of a real frame ahead of it, as a disk leaves that wrote one block of two."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as monkeypatch:
        unsynced(monkeypatch)
        path = Path(directory) / "journal"
        whole = write(path, [b"first", b"x" * 60])
        path.write_bytes(whole[: starts()[1] + shown] + garbage)

        assert read(path) == [b"first"]
        assert append_and_read(path, b"more") == [b"first", b"more"]


def test_zeros_at_the_end_are_cut_off(path):
    whole = write(path)
    path.write_bytes(whole + bytes(4096))

    assert read(path) == PAYLOADS
    assert path.read_bytes() == whole


def test_a_torn_frame_that_speaks_of_the_salt_is_cut_off_all_the_same(path):
    journal = Journal.create(path, [b"first"])
    whole = path.read_bytes()
    journal.append(2 * whole[SALT] + b"and more")
    journal.close()
    path.write_bytes(path.read_bytes()[:-1])

    assert read(path) == [b"first"]
    assert path.read_bytes() == whole


def test_frames_of_another_journal_are_not_taken_for_its_own(path):
    """A disk may show blocks of a file that was there before."""
    other = write(path.with_name("other"))
    whole = write(path)
    path.write_bytes(whole + other[HEADER_BYTES:])

    assert read(path) == PAYLOADS
    assert path.read_bytes() == whole


def test_nothing_that_can_be_written_as_text_imitates_a_frame(path):
    salt = write(path)[SALT]

    assert salt[0] == 0xFF  # which is in no UTF-8


# --- damage --------------------------------------------------------------------------------------


def test_damage_that_good_frames_follow_is_an_error_that_says_where_and_changes_nothing(path):
    whole = write(path)
    for place in range(HEADER_BYTES, starts()[-2]):
        bad = max(start for start in starts() if start <= place)
        good = min(start for start in starts() if start > place)
        damaged = _flipped(whole, place)
        path.write_bytes(damaged)

        with pytest.raises(FormatError, match=f"damaged; good again from byte {good}") as caught:
            read(path)

        assert caught.value.place == f"byte {bad}"
        assert "restore" in caught.value.remedy
        assert path.read_bytes() == damaged


def test_a_damaged_frame_that_speaks_of_the_salt_does_not_hide_the_good_one_after_it(path):
    journal = Journal.create(path, [b"first"])
    whole = path.read_bytes()
    journal.append(2 * whole[SALT])
    good = journal.size_bytes
    journal.append(b"last")
    journal.close()
    path.write_bytes(_flipped(path.read_bytes(), len(whole)))

    with pytest.raises(FormatError, match=f"good again from byte {good}"):
        read(path)


@pytest.mark.parametrize("lost", [3, FRAME_BYTES, FRAME_BYTES + len(PAYLOADS[2])])
def test_a_piece_missing_from_the_middle_is_damage(path, lost):
    whole = write(path)
    path.write_bytes(whole[: starts()[2]] + whole[starts()[2] + lost :])

    with pytest.raises(FormatError, match=r"good again|has frame 3 where 2 should be") as caught:
        read(path)

    assert caught.value.place == f"byte {starts()[2]}"


def test_a_piece_that_is_there_twice_is_damage(path):
    whole = write(path)
    path.write_bytes(whole[: starts()[2]] + whole[starts()[1] :])

    with pytest.raises(FormatError, match="has frame 1 where 2 should be"):
        read(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no dataward journal"),
        (b"something else entirely, and long enough to be one", "no dataward journal"),
        (b"dataward journal\0\0\0\1", "cut off within its header"),
        (b"dataward journal\0\0\0\1" + bytes(16), "version 1; this dataward reads version 2"),
        (b"dataward journal\0\0\0\2" + bytes(16), "damaged header"),
    ],
)
def test_a_file_with_another_beginning_is_refused(path, content, said):
    path.write_bytes(content)

    with pytest.raises(FormatError, match=said):
        Journal(path)

    assert path.read_bytes() == content


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]


# --- disks that fail -----------------------------------------------------------------------------


def test_a_frame_that_finds_no_room_leaves_the_file_as_it_was(path):
    whole = write(path)
    journal = Journal(path)
    list(journal.frames())

    with no_file_longer_than(len(whole) + 50), pytest.raises(OSError, match="too large"):
        journal.append(b"x" * 100)
    journal.close()

    assert path.read_bytes() == whole


def test_a_frame_that_could_not_be_synced_is_not_left_for_others_to_read(path, monkeypatch):
    whole = write(path)
    journal = Journal(path)
    list(journal.frames())
    monkeypatch.setattr(os, "fdatasync", _fails_with_eio)

    with pytest.raises(OSError, match="Input/output"):
        journal.append(b"more")
    journal.close()

    assert path.read_bytes() == whole


def test_a_successor_that_finds_no_room_leaves_the_journal_as_it_was(path):
    whole = write(path)
    journal = Journal(path)
    list(journal.frames())

    with no_file_longer_than(50), pytest.raises(OSError, match="too large"):
        journal.replace([b"x" * 100])
    journal.append(b"more")
    journal.close()

    assert path.read_bytes().startswith(whole)
    assert read(path) == [*PAYLOADS, b"more"]
    assert not path.with_suffix(".new").exists()


def test_a_successor_takes_the_place_of_the_journal_and_goes_on(path):
    write(path)
    journal = Journal(path)
    list(journal.frames())

    journal.replace([b"in", b"short"])
    journal.append(b"more")
    journal.close()

    assert read(path) == [b"in", b"short", b"more"]


def test_a_frame_and_a_successor_are_synced_before_they_count(path, monkeypatch):
    write(path)
    journal = Journal(path)
    list(journal.frames())
    done = []
    for name in ("pwrite", "fdatasync", "fsync", "replace"):
        monkeypatch.setattr(os, name, _noted(name, getattr(os, name), done))

    journal.append(b"more")
    journal.replace([b"anew"])
    journal.close()

    assert done == ["pwrite", "fdatasync", "fsync", "replace", "fsync"]


def test_a_successor_is_synced_when_all_of_it_is_written(path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda file: sizes.append(os.fstat(file).st_size))

    Journal.create(path, PAYLOADS).close()

    assert sizes[0] == path.stat().st_size


def test_what_a_killed_process_wrote_but_did_not_sync_is_synced_before_it_is_built_on(
    path, monkeypatch
):
    write(path)
    journal = Journal(path)
    done = []
    for name in ("ftruncate", "fsync"):
        monkeypatch.setattr(os, name, _noted(name, getattr(os, name), done))

    list(journal.frames())
    journal.close()

    assert done == ["ftruncate", "fsync"]


def _fails_with_eio(file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _noted(name, function, done):
    def call(*arguments):
        done.append(name)
        return function(*arguments)

    return call


# --- one at a time -------------------------------------------------------------------------------

HOLD_IT = """
import sys
from pathlib import Path
from dataward.stores.journal import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_held_by_another_process_is_refused_naming_it_until_that_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLD_IT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"held\n"

        with pytest.raises(DirectoryInUse, match=f"in use by process {child.pid};"):
            DirectoryLock(tmp_path)

        child.kill()
    DirectoryLock(tmp_path).release()


def test_a_directory_is_held_once_in_one_process_too(tmp_path):
    lock = DirectoryLock(tmp_path)

    with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
        DirectoryLock(tmp_path)

    lock.release()
    DirectoryLock(tmp_path).release()


def test_whoever_holds_a_directory_says_so_in_the_place_of_those_before(tmp_path):
    (tmp_path / "lock").write_text("123456789\n")

    lock = DirectoryLock(tmp_path)

    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_refusal_says_which_directory_and_by_whom_if_that_is_known(tmp_path):
    known, unknown = DirectoryInUse(tmp_path, "7"), DirectoryInUse(tmp_path, "")

    assert (known.directory, known.process) == (tmp_path, "7")
    assert "in use by process 7;" in str(known)
    assert "in use by another process;" in str(unknown)


def test_a_directory_is_locked_while_it_is_held_and_abandoned_after(tmp_path):
    def looks() -> tuple[bool, bool]:
        return is_locked(tmp_path), is_abandoned(tmp_path)

    never = looks()
    lock = DirectoryLock(tmp_path)
    held = looks()
    lock.release()

    assert never == (False, False)
    assert held == (True, False)
    assert looks() == (False, True)


def test_a_directory_that_somebody_is_about_to_lock_is_not_abandoned(tmp_path):
    (tmp_path / "lock").touch()

    assert not is_abandoned(tmp_path)
    assert not is_locked(tmp_path)
