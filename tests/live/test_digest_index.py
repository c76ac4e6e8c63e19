"""The files of a host by content."""

import os
from pathlib import Path

from blake3 import blake3

from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex, believed


def placed(path: Path, content: bytes) -> Place:
    path.write_bytes(content)
    return Place(str(path), len(content), blake3(content).hexdigest(), False)


def test_equal_files_count_once_and_stay_until_the_last_is_gone(tmp_path: Path) -> None:
    index = DigestIndex()
    one, two = placed(tmp_path / "one", b"abc"), placed(tmp_path / "two", b"abc")
    index.add(one)
    index.add(two)

    assert index.used_bytes == 3
    index.discard(one)
    assert index.find(one.digest) == two
    index.discard(two)
    assert (index.find(one.digest), index.used_bytes, len(index)) == (None, 0, 0)


def test_a_file_that_has_gone_from_the_disk_is_not_found(tmp_path: Path) -> None:
    index = DigestIndex()
    place = placed(tmp_path / "one", b"abc")
    index.add(place)
    (tmp_path / "one").unlink()

    assert index.find(place.digest) is None
    assert index.used_bytes == 0


def test_only_files_that_are_what_their_names_say_are_believed(tmp_path: Path) -> None:
    good, torn = blake3(b"good").hexdigest(), blake3(b"whole").hexdigest()
    (tmp_path / f"{good}.a").write_bytes(b"good")
    (tmp_path / f"{torn}.b").write_bytes(b"who")
    for path in tmp_path.iterdir():
        path.chmod(0o444)

    assert [place.digest for place in believed([tmp_path])] == [good]
    assert not (tmp_path / f"{torn}.b").exists()


def an_index_with(path: Path, content: bytes) -> DigestIndex:
    path.write_bytes(content)
    status = os.stat(path)
    index = DigestIndex()
    index.add(Place(str(path), status.st_size, "aa", False, status.st_mtime_ns))
    return index


def test_a_file_is_found_by_its_digest(tmp_path: Path) -> None:
    index = an_index_with(tmp_path / "f", b"content")

    found = index.find("aa")

    assert found is not None
    assert found.path == str(tmp_path / "f")
    assert index.have(["aa", "bb"]) == ["aa"]


def test_a_file_that_has_gone_does_not_count(tmp_path: Path) -> None:
    index = an_index_with(tmp_path / "f", b"content")

    (tmp_path / "f").unlink()

    assert index.have(["aa"]) == []
    assert index.used_bytes == 0


def test_a_file_that_was_written_to_does_not_count(tmp_path: Path) -> None:
    index = an_index_with(tmp_path / "f", b"content")

    (tmp_path / "f").write_bytes(b"CONTENT")
    os.utime(tmp_path / "f", ns=(1, 1))

    assert index.find("aa") is None


def test_another_file_of_the_same_content_takes_its_place(tmp_path: Path) -> None:
    index = an_index_with(tmp_path / "f", b"content")
    (tmp_path / "g").write_bytes(b"content")
    index.add(Place(str(tmp_path / "g"), 7, "aa", False))

    (tmp_path / "f").unlink()

    found = index.find("aa")
    assert found is not None
    assert found.path == str(tmp_path / "g")
