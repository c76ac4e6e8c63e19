"""Directories packed into one file, and what their digests depend on."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dataward.live.packed_tree import entries_of, pack, tree_digest, tree_fingerprint, unpack


def a_tree(top: Path, names: tuple[str, ...] = ("a", "b/c", "b/d", "b-e")) -> Path:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    (top / "empty").mkdir()
    (top / "run").write_text("x")
    (top / "run").chmod(0o755)
    return top


def digest(top: Path) -> str:
    return tree_digest(entries_of(str(top)))


def test_what_was_packed_is_unpacked_with_the_same_digest() -> None:
    tree = a_tree(Path("tree"))
    Path(os.fsdecode(b"tree/not \xff utf-8\n")).write_bytes(b"\0" * 3_000_000)

    packed, size_bytes = pack(entries_of("tree"), "packed")
    unpack("packed", "again")

    assert packed == digest(tree) == digest(Path("again"))
    assert size_bytes == Path("packed").stat().st_size
    assert [e[:1] + e[2:4] for e in entries_of("again")] == [
        e[:1] + e[2:4] for e in entries_of("tree")
    ]


def test_a_digest_is_the_same_whoever_made_the_directory_when_and_in_what_order() -> None:
    one = a_tree(Path("one"))
    other = a_tree(Path("other"), ("b-e", "b/d", "b/c", "a"))
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() or path.name == "run" else 0o600)

    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "a").write_text("other"),
        lambda top: (top / "a").rename(top / "z"),
        lambda top: (top / "a").chmod(0o755),
        lambda top: (top / "run").chmod(0o644),
        lambda top: (top / "new").touch(),
        lambda top: (top / "empty").rmdir(),
        lambda top: (top / "b/c").rename(top / "c"),
    ],
)
def test_names_executable_bits_and_contents_are_all_in_a_digest(
    change: Callable[[Path], None],
) -> None:
    tree = a_tree(Path("tree"))
    before = digest(tree)

    change(tree)

    assert digest(tree) != before


def test_contents_cannot_pass_for_entries() -> None:
    a_tree(Path("tree"))
    Path("other").mkdir()
    pack(entries_of("tree"), "other/a")

    assert digest(Path("other")) != digest(Path("tree"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"something else", "no packed directory"),
        (b"dataward tree 1\nf\x01", "end is missing"),
        (b"dataward tree 1\nf\x01\0\0\0\x09\0\0\0\0\0\0\0ab", "end is missing"),
        (b"dataward tree 1\nf\x05\0\0\0\0\0\0\0\0\0\0\0../up", "outside"),
        (b"dataward tree 1\nf\x02\0\0\0\0\0\0\0\0\0\0\0/a", "outside"),
    ],
)
def test_a_packed_directory_that_is_damaged_or_leads_out_of_its_place_is_refused(
    data: bytes, said: str
) -> None:
    Path("packed").write_bytes(data)

    with pytest.raises(OSError, match=said):
        unpack("packed", "tree")

    assert not Path("up").exists()


def test_a_file_that_grows_while_it_is_packed_is_an_error() -> None:
    a_tree(Path("tree"))
    entries = entries_of("tree")
    Path("tree/a").write_text("much longer than it was before")

    with pytest.raises(OSError, match="while it was read"):
        pack(entries, "packed")


# --- fingerprints --------------------------------------------------------------------------------


def an_old_tree(top: Path) -> Path:
    """One in which everything was last changed at second 1000."""
    a_tree(top)
    for name in ("nothing", "b/nothing"):
        (top / name).touch()
    for path in (*top.rglob("*"), top):
        os.utime(path, (1000, 1000))
    return top


def test_a_fingerprint_is_the_size_of_all_files_and_the_time_of_the_last_change() -> None:
    tree = an_old_tree(Path("tree"))
    sizes = [path.stat().st_size for path in tree.rglob("*") if path.is_file()]

    assert tree_fingerprint("tree") == (sum(sizes), 1000 * 10**9)
    os.utime("tree/b/c", (2000, 2000))
    assert tree_fingerprint("tree") == (sum(sizes), 2000 * 10**9)


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "new").touch(),
        lambda top: (top / "b/new").touch(),
        lambda top: (top / "nothing").unlink(),  # which only the directory's own time tells
        lambda top: (top / "b/nothing").unlink(),
        lambda top: (top / "b/c").rename(top / "b/z"),
        lambda top: (top / "a").write_text("content of z"),
        lambda top: os.truncate(top / "a", 1),
    ],
)
def test_a_fingerprint_tells_of_changes_however_deep(change: Callable[[Path], None]) -> None:
    tree = an_old_tree(Path("tree"))
    before = tree_fingerprint("tree")

    change(tree)

    assert tree_fingerprint("tree") != before


def test_a_link_to_nowhere_is_not_in_the_way_of_a_fingerprint() -> None:
    an_old_tree(Path("tree"))
    before = tree_fingerprint("tree")
    Path("tree/link").symlink_to("nowhere")
    os.utime("tree", (1000, 1000))

    assert tree_fingerprint("tree") == before
