"""Only files that are on the disk, and as they were, count as this host's."""

import os
from pathlib import Path

from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex


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
