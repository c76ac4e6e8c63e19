"""When an input that nobody serves counts as lost."""

from dataward.model.workflow import FileId
from dataward.node.unserved import UnservedFiles

A = FileId("a")


def tried(*times: float) -> UnservedFiles:
    files = UnservedFiles(lost_seconds=100.0)
    for at in times:
        files.failed(A, at)
    return files


def test_a_file_is_lost_once_nobody_has_served_it_for_so_long() -> None:
    assert tried(0, 50, 99).seconds(A) == 0
    assert tried(0, 50, 100).seconds(A) == 100


def test_two_tries_are_too_few() -> None:
    assert tried(0, 120).seconds(A) == 0


def test_a_node_that_has_not_asked_for_long_counts_anew() -> None:
    assert tried(0, 10, 90, 300).seconds(A) == 0
    assert tried(0, 10, 90, 300, 350, 400).seconds(A) == 100


def test_a_file_that_came_is_not_lost() -> None:
    files = tried(0, 50, 100)
    files.came(A)

    assert files.seconds(A) == 0
