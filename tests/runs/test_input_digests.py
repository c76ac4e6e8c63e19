"""Digests of files from outside: right always, and without reading when that can be known."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.live.depot_disk import Place
from dataward.live.file_digest import CHUNK_BYTES, LARGE_BYTES
from dataward.runs.input_digests import (
    SETTLED_NS,
    InputDigests,
    InputFileError,
    this_boot,
)
from dataward.stores.journal import Journal

NOW_NS = 1_700_000_000_000_000_000


def at(now_ns: int) -> Callable[[], int]:
    return lambda: now_ns


def write(path: Path, content: bytes, modified_ns: int) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))


def digest(content: bytes) -> str:
    return blake3(content).hexdigest()


def digest_in_a_run(cache: Path, path: Path, now_ns: int = NOW_NS) -> str:
    digests = InputDigests(cache, at(now_ns))
    found = digests.digest_of(path)
    digests.save()
    return found


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "input"


# --- digests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size_bytes", [0, 1, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, LARGE_BYTES + 1]
)
def test_the_digest_is_blake3_of_the_content_whatever_the_size(cache, path, size_bytes):
    content = (bytes(range(251)) * (size_bytes // 251 + 1))[:size_bytes]
    write(path, content, NOW_NS)

    assert digest_in_a_run(cache, path) == digest(content)


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_file_is_known_by_its_absolute_path(cache, path, tmp_path, monkeypatch, is_relative):
    monkeypatch.chdir(tmp_path)
    write(path, b"old", 0)
    digest_in_a_run(cache, Path(path.name))
    write(path, b"new", 0)  # which only a reader would notice

    monkeypatch.chdir("/")
    again = os.path.relpath(path) if is_relative else path

    assert digest_in_a_run(cache, Path(again)) == digest(b"old")


# --- what is remembered --------------------------------------------------------------------------


def test_a_file_that_looks_the_same_is_not_read_again(cache, path):
    write(path, b"old", NOW_NS - SETTLED_NS)
    digest_in_a_run(cache, path)
    write(path, b"new", NOW_NS - SETTLED_NS)  # as nobody does; so a reader would be found out

    assert digest_in_a_run(cache, path) == digest(b"old")


def test_a_file_modified_just_before_it_was_read_is_read_again(cache, path):
    modified_ns = NOW_NS - SETTLED_NS + 1
    write(path, b"old", modified_ns)
    digest_in_a_run(cache, path)
    write(path, b"new", modified_ns)  # within the same tick of the file system's clock

    assert digest_in_a_run(cache, path, NOW_NS + 10 * SETTLED_NS) == digest(b"new")


def test_a_file_modified_just_before_it_was_read_is_read_again_in_the_same_run(cache, path):
    digests = InputDigests(cache, at(NOW_NS))
    write(path, b"old", NOW_NS)
    digests.digest_of(path)
    write(path, b"new", NOW_NS)

    assert digests.digest_of(path) == digest(b"new")


def test_a_file_from_the_future_is_read_again(cache, path):
    write(path, b"old", NOW_NS + 10 * SETTLED_NS)
    digest_in_a_run(cache, path)
    write(path, b"new", NOW_NS + 10 * SETTLED_NS)

    assert digest_in_a_run(cache, path) == digest(b"new")


def test_a_file_that_has_settled_is_remembered_from_its_second_reading_on(cache, path):
    write(path, b"old", NOW_NS)
    digest_in_a_run(cache, path, NOW_NS)
    digest_in_a_run(cache, path, NOW_NS + SETTLED_NS)
    write(path, b"new", NOW_NS)

    assert digest_in_a_run(cache, path, NOW_NS + SETTLED_NS) == digest(b"old")


# --- after the machine was started again ---------------------------------------------------------


def digest_after(boot: str, cache: Path, path: Path, hours: float) -> str:
    """What is known so many hours after the file was last changed."""
    now_ns = int(path.stat().st_ctime_ns + hours * 3600e9)
    digests = InputDigests(cache, at(now_ns), boot)
    found = digests.digest_as("x/" if path.is_dir() else "x", path)
    digests.save()
    return found


def scribble(path: Path) -> None:
    """Change the content and nothing that can be seen, as a power cut does."""
    file = path / "inside" if path.is_dir() else path
    modified_ns = file.stat().st_mtime_ns
    file.write_bytes(bytes(file.stat().st_size))
    os.utime(file, ns=(modified_ns, modified_ns))


@pytest.fixture(params=["file", "directory"])
def written(request, path) -> Path:
    inside = path
    if request.param == "directory":
        path.mkdir()
        inside = path / "inside"
    write(inside, b"written", NOW_NS - SETTLED_NS)
    return path


def test_what_may_never_have_got_to_the_disk_is_read_again(cache, written):
    before = digest_after("first", cache, written, hours=0.5)
    scribble(written)

    assert digest_after("first", cache, written, hours=0.5) == before, "not read again"
    assert digest_after("second", cache, written, hours=0.5) != before


def test_what_has_been_on_the_disk_for_long_is_not_read_again(cache, written):
    before = digest_after("first", cache, written, hours=1.5)
    scribble(written)

    assert digest_after("second", cache, written, hours=1.5) == before


def test_what_was_new_when_it_was_read_and_is_old_when_it_is_looked_at_is_not_read_again(
    cache, path
):
    write(path, b"written", NOW_NS - SETTLED_NS)
    before = digest_after("first", cache, path, hours=0.5)

    digest_after("first", cache, path, hours=1.5)
    scribble(path)

    assert digest_after("second", cache, path, hours=1.5) == before


def test_the_machine_says_when_it_was_started_again():
    assert this_boot() == this_boot() != ""


# --- what counts as the same file ----------------------------------------------------------------


def test_a_file_put_in_the_place_of_another_is_read(cache, path, tmp_path):
    """Of the same size and time, as ``mv`` and ``cp -p`` leave them."""
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    write(tmp_path / "other", b"new", 0)
    os.replace(tmp_path / "other", path)

    assert digest_in_a_run(cache, path) == digest(b"new")


def test_a_file_that_grew_is_read_though_its_time_is_the_same(cache, path):
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    write(path, b"older", 0)

    assert digest_in_a_run(cache, path) == digest(b"older")


def test_a_file_linked_somewhere_else_is_not_read_again(cache, path, tmp_path):
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    os.link(path, tmp_path / "link")
    write(path, b"new", 0)

    assert digest_in_a_run(cache, path) == digest(b"old")


def test_a_file_not_asked_about_in_one_run_is_still_known_in_the_next(cache, path, tmp_path):
    write(path, b"old", 0)
    write(tmp_path / "other", b"other", 0)
    digest_in_a_run(cache, path)
    digest_in_a_run(cache, tmp_path / "other")
    write(path, b"new", 0)

    assert digest_in_a_run(cache, path) == digest(b"old")


def test_names_that_are_no_text_are_remembered(cache, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    write(path, b"new", 0)

    assert digest_in_a_run(cache, path) == digest(b"old")


WRITES = st.tuples(st.just("write"), st.sampled_from([b"a", b"b", b"cc"]))
WAITS = st.tuples(st.just("wait"), st.sampled_from([0, 1, SETTLED_NS // 2, SETTLED_NS]))
RUNS = st.tuples(st.just("run"), st.just(None))


@settings(deadline=None)
@given(st.lists(WRITES | WAITS | RUNS, max_size=12), st.sampled_from([1, SETTLED_NS // 2]))
def test_no_digest_is_ever_stale_on_a_file_system_with_coarse_ticks(happenings, tick_ns):
    with TemporaryDirectory() as directory:
        cache, path = Path(directory, "cache"), Path(directory, "input")
        now_ns, content = NOW_NS, b"a"
        write(path, content, now_ns // tick_ns * tick_ns)

        for what, value in [*happenings, ("run", None)]:
            if what == "wait":
                now_ns += value
            elif what == "write":
                content = value
                write(path, content, now_ns // tick_ns * tick_ns)
            else:
                assert digest_in_a_run(cache, path, now_ns) == digest(content)


# --- files that this process has written ---------------------------------------------------------


def a_place(path: Path, content: bytes, modified_ns: int) -> Place:
    """Where a file is, as whoever wrote it knows it."""
    write(path, content, modified_ns)
    return Place(str(path), len(content), digest(content), False, modified_ns)


def remembered_in_a_run(cache: Path, place: Place, now_ns: int = NOW_NS) -> None:
    digests = InputDigests(cache, at(now_ns))
    digests.remember(place)
    digests.save()


def test_a_file_whose_digest_is_known_need_not_be_read(cache, path):
    remembered_in_a_run(cache, a_place(path, b"old", NOW_NS - SETTLED_NS))
    write(path, b"new", NOW_NS - SETTLED_NS)  # which only a reader would notice

    assert digest_in_a_run(cache, path) == digest(b"old")


@pytest.mark.parametrize(
    ("content", "modified_ns"),
    [(b"longer", NOW_NS - SETTLED_NS), (b"new", NOW_NS - SETTLED_NS - 1)],
)
def test_a_file_that_was_changed_since_it_was_written_is_read(cache, path, content, modified_ns):
    place = a_place(path, b"old", NOW_NS - SETTLED_NS)
    write(path, content, modified_ns)

    remembered_in_a_run(cache, place)

    assert digest_in_a_run(cache, path) == digest(content)


def test_a_file_that_was_written_just_now_is_read_the_next_time(cache, path):
    """It may be written to once more within one tick of the file system's clock."""
    remembered_in_a_run(cache, a_place(path, b"old", NOW_NS - SETTLED_NS + 1))
    write(path, b"new", NOW_NS - SETTLED_NS + 1)

    assert digest_in_a_run(cache, path, NOW_NS + 10 * SETTLED_NS) == digest(b"new")


def test_a_file_that_is_gone_is_not_remembered(cache, path):
    place = a_place(path, b"old", 0)
    path.unlink()

    remembered_in_a_run(cache, place)

    assert not cache.exists()


# --- directories ---------------------------------------------------------------------------------


def tree_digest_in_a_run(cache: Path, path: Path, now_ns: int = NOW_NS) -> str:
    digests = InputDigests(cache, at(now_ns))
    found = digests.digest_of_tree(path)
    digests.save()
    return found


def a_tree(top: Path, content: bytes, modified_ns: int) -> None:
    """One file, two directories deep."""
    (top / "deep").mkdir(parents=True, exist_ok=True)
    write(top / "deep/file", content, modified_ns)
    os.utime(top / "deep", ns=(0, 0))


@pytest.mark.parametrize(("is_settled", "is_read"), [(True, False), (False, True)])
def test_a_directory_is_read_again_only_if_a_file_in_it_was_modified_just_before(
    cache, path, is_settled, is_read
):
    modified_ns = NOW_NS - SETTLED_NS + (0 if is_settled else 1)
    a_tree(path, b"old", modified_ns)
    before = tree_digest_in_a_run(cache, path)
    a_tree(path, b"new", modified_ns)  # which only a reader would notice

    assert (tree_digest_in_a_run(cache, path) != before) == is_read


@pytest.mark.parametrize(
    "change",
    [
        lambda top: write(top / "deep/file", b"longer", 0),
        lambda top: write(top / "deep/file", b"new", 1),
        lambda top: (top / "deep/file").rename(top / "deep/other"),
        lambda top: (top / "deep/file").chmod(0o755),
        lambda top: (top / "deep/empty").mkdir(),
    ],
)
def test_a_directory_that_looks_different_is_read_again(cache, path, change):
    a_tree(path, b"old", 0)
    before = tree_digest_in_a_run(cache, path)

    change(path)

    assert tree_digest_in_a_run(cache, path) != before


def test_an_empty_directory_has_a_digest_of_its_own(cache, path):
    path.mkdir()
    empty = tree_digest_in_a_run(cache, path)
    assert tree_digest_in_a_run(cache, path) == empty

    a_tree(path, b"", 0)

    assert tree_digest_in_a_run(cache, path) != empty


# --- a cache, no more ----------------------------------------------------------------------------


def test_nothing_is_remembered_unless_saved(cache, path):
    write(path, b"old", 0)
    InputDigests(cache, at(NOW_NS)).digest_of(path)

    assert not cache.exists()


def test_a_damaged_cache_is_ignored_and_replaced(cache, path):
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    whole = cache.read_bytes()
    write(path, b"new", 0)
    wrong = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    short = [whole[:end] for end in range(len(whole))]

    for damaged in wrong + short:
        cache.write_bytes(damaged)

        assert InputDigests(cache, at(NOW_NS)).digest_of(path) == digest(b"new")

    digest_in_a_run(cache, path)
    write(path, b"old", 0)
    assert digest_in_a_run(cache, path) == digest(b"new")


@pytest.mark.parametrize("payloads", [[], [b""], [b"\x01"], [b"", b""]], ids=repr)
def test_a_cache_that_holds_something_else_is_ignored(cache, path, payloads):
    Journal.create(cache, payloads).close()
    write(path, b"content", 0)

    assert digest_in_a_run(cache, path) == digest(b"content")


def test_a_cache_of_another_version_is_ignored(cache, path):
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    journal = Journal(cache)
    version, remembered = msgspec.msgpack.decode(next(journal.frames()), strict=False)
    journal.close()
    Journal.create(cache, [msgspec.msgpack.encode((version + 1, remembered))]).close()
    write(path, b"new", 0)

    assert digest_in_a_run(cache, path) == digest(b"new")


def test_a_cache_that_can_be_neither_read_nor_written_is_done_without(cache, path):
    cache.mkdir()
    write(path, b"content", 0)

    assert digest_in_a_run(cache, path) == digest(b"content")
    assert digest_in_a_run(path.parent / "nowhere" / "cache", path) == digest(b"content")


# --- files that cannot be read -------------------------------------------------------------------


def test_a_missing_file_is_named(cache, path):
    with pytest.raises(InputFileError, match=r"input file '.*/input' does not exist"):
        InputDigests(cache).digest_of(path)


def test_a_file_that_went_missing_is_not_answered_for_from_memory(cache, path):
    write(path, b"old", 0)
    digest_in_a_run(cache, path)
    path.unlink()

    with pytest.raises(InputFileError, match="does not exist"):
        InputDigests(cache).digest_of(path)


def test_a_directory_is_no_input_file(cache, tmp_path):
    with pytest.raises(InputFileError, match="is a directory"):
        InputDigests(cache).digest_of(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(cache, path):
    os.mkfifo(path)

    with pytest.raises(InputFileError, match="is not a plain file"):
        InputDigests(cache).digest_of(path)


def test_a_path_through_a_file_is_an_error_that_says_so(cache, path):
    write(path, b"content", 0)

    with pytest.raises(InputFileError, match="cannot be read: Not a directory"):
        InputDigests(cache).digest_of(path / "inside")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(cache, path):
    write(path, b"content", 0)
    path.chmod(0)

    with pytest.raises(InputFileError, match=r"'.*/input' cannot be read: Permission denied"):
        InputDigests(cache).digest_of(path)


def test_a_file_written_to_while_it_is_read_has_no_digest(cache, path):
    write(path, b"old", 0)

    def a_clock_during_which_somebody_writes() -> int:
        write(path, b"new", 1)
        return NOW_NS

    with pytest.raises(InputFileError, match="was written to while it was read"):
        InputDigests(cache, a_clock_during_which_somebody_writes).digest_of(path)
