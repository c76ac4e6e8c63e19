"""What of a disk's files survives a power cut: all that is promised, and of the rest anything."""

import pytest

from power.disk import Disk, Tree
from power.effects import (
    ROOT,
    Changed,
    Created,
    Effect,
    Linked,
    Removed,
    Renamed,
    Resized,
    Synced,
    SyncedAll,
    Wrote,
)
from power.survival import EMPTY_FILES, EVERYTHING, NOTHING, ZEROS, Survival, drawn, what_is_left


def made(item: int, name: str, directory: int = ROOT, kind: str = "file") -> Created:
    return Created(item, directory, name, kind, 0o644, 100 + item)


def wrote(item: int, content: str, offset: int = 0) -> Wrote:
    return Wrote(item, offset, content.encode(), 1)


def synced(item: int) -> Synced:
    return Synced(item, False)


def a_disk(*effects: Effect) -> Disk:
    disk = Disk()
    for effect in effects:
        disk.apply(effect)
    return disk


def contents(tree: Tree) -> dict[str, str]:
    return {path: left.content.decode() for path, left in tree.items()}


def left(disk: Disk, survival: Survival = NOTHING) -> dict[str, str]:
    return contents(what_is_left(disk, survival))


def all_drawn(disk: Disk, count: int = 300) -> set[tuple[tuple[str, str], ...]]:
    return {tuple(left(disk, drawn(seed)).items()) for seed in range(count)}


def test_a_file_is_safe_if_it_was_synced_and_so_was_its_directory():
    both = a_disk(made(1, "a"), wrote(1, "one"), synced(1), synced(ROOT))
    only_the_file = a_disk(made(1, "a"), wrote(1, "one"), synced(1))
    only_its_name = a_disk(made(1, "a"), synced(ROOT), wrote(1, "one"))

    assert left(both) == {"a": "one"}
    assert left(only_the_file) == {}
    assert left(only_its_name) == {"a": ""}


def test_what_comes_after_a_sync_is_not_safe():
    disk = a_disk(made(1, "a"), wrote(1, "one"), SyncedAll(), wrote(1, "two", 3), made(2, "b"))

    assert left(disk) == {"a": "one"}
    assert left(disk, EVERYTHING) == {"a": "onetwo", "b": ""}
    assert left(disk, EMPTY_FILES) == {"a": "one", "b": ""}
    assert left(disk, ZEROS) == {"a": "one\0\0\0", "b": ""}


def test_a_directory_is_only_as_safe_as_its_name():
    disk = a_disk(made(1, "d", kind="directory"), made(2, "f", 1), wrote(2, "x"), synced(2))

    disk.apply(synced(1))
    assert left(disk) == {}

    disk.apply(synced(ROOT))
    assert left(disk) == {"d": "", "d/f": "x"}


def test_a_rename_that_was_not_synced_leaves_the_old_name_or_the_new():
    disk = a_disk(made(1, "a"), wrote(1, "x"), SyncedAll(), Renamed(ROOT, "a", ROOT, "b"))

    assert all_drawn(disk) == {(("a", "x"),), (("b", "x"),)}


def test_a_rename_over_another_file_leaves_one_of_the_two():
    disk = a_disk(
        made(1, "a"), wrote(1, "old"), SyncedAll(), made(2, "n"), wrote(2, "new"), synced(2),
        Renamed(ROOT, "n", ROOT, "a"),
    )  # fmt: skip

    assert {dict(drawn_one)["a"] for drawn_one in all_drawn(disk)} == {"old", "new"}


@pytest.mark.parametrize("sync", [None, synced(1), synced(2)])
def test_a_rename_between_directories_loses_no_file(sync):
    disk = a_disk(
        made(1, "d", kind="directory"), made(2, "e", kind="directory"), made(3, "f", 1),
        wrote(3, "x"), SyncedAll(), Renamed(1, "f", 2, "g"), *([sync] if sync else []),
    )  # fmt: skip

    found = {frozenset(dict(drawn_one)) - {"d", "e"} for drawn_one in all_drawn(disk)}

    both, old, new = frozenset({"d/f", "e/g"}), frozenset({"d/f"}), frozenset({"e/g"})
    is_safe = {None: {old, new, both}, synced(1): {new}, synced(2): {new, both}}
    assert found == is_safe[sync]


def test_a_removed_file_may_come_back_whole():
    disk = a_disk(made(1, "a"), wrote(1, "x"), SyncedAll(), Removed(ROOT, "a"))

    assert all_drawn(disk) == {(("a", "x"),), ()}


def test_a_second_name_is_the_same_file():
    disk = a_disk(made(1, "a"), wrote(1, "x"), Linked(1, ROOT, "b"), SyncedAll(), wrote(1, "y", 1))

    assert left(disk, EVERYTHING) == {"a": "xy", "b": "xy"}
    assert {d["a"] == d["b"] for d in map(dict, all_drawn(disk))} == {True}


def test_any_part_of_a_content_may_survive():
    disk = a_disk(made(1, "a"), SyncedAll(), wrote(1, "x" * 4096), wrote(1, "y" * 4096, 4096))

    found = {dict(drawn_one)["a"] for drawn_one in all_drawn(disk)}

    zeros = "\0" * 4096
    assert {"", "x" * 4096 + "y" * 4096, zeros + zeros, zeros + "y" * 4096, "x" * 4096} <= found
    assert any(0 < len(content) < 4096 for content in found), "torn"


def test_a_file_that_was_cut_short_may_still_be_long():
    disk = a_disk(made(1, "a"), wrote(1, "long"), SyncedAll(), Resized(1, 0, 2))

    assert all_drawn(disk) == {(("a", ""),), (("a", "long"),)}


def test_a_mode_is_safe_if_more_than_the_data_was_synced():
    modes = {}
    for data_only in (True, False):
        disk = a_disk(made(1, "a"), synced(ROOT), Changed(1, 0o444, 1), Synced(1, data_only))
        modes[data_only] = {what_is_left(disk, drawn(seed))["a"].mode for seed in range(50)}

    assert modes == {True: {0o444, 0o644}, False: {0o444}}


def test_the_same_seed_draws_the_same():
    disk = a_disk(*(made(i, f"f{i}") for i in range(1, 20)), *(wrote(i, "x") for i in range(1, 20)))

    assert left(disk, drawn(7)) == left(disk, drawn(7))
    assert left(disk, drawn(7)) != left(disk, drawn(8))
