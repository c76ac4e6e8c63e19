"""Operations by columns, as a server's functions read them."""

import pytest

from conformance.store_cases import a_task
from dataward.model.operations import Begin, Commit, Delivered, Notify, OutputFile, Submit
from dataward.stores.packed_operations import runs_of, short_digest


def test_operations_of_one_kind_that_follow_one_another_are_one_run():
    runs = runs_of(
        [
            Begin("a", "n1.1.1", "n1"),
            Begin("b", "n2.1.1", "n2"),
            Delivered("c", 1),
            Begin("d", "n1.1.2", "n1"),
        ]
    )

    assert [(run.type, run.count) for run in runs] == [("Begin", 2), ("Delivered", 1), ("Begin", 1)]
    assert runs[0].columns == {
        "task": ["a", "b"],
        "attempt": ["n1.1.1", "n2.1.1"],
        "node": ["n1", "n2"],
    }


def test_a_column_that_says_nothing_is_left_out():
    plain, removed = Notify("a", "p", 1), Notify("b", "p", 1, removed=True)

    assert set(runs_of([plain])[0].columns) == {"task", "parent", "generation"}
    assert runs_of([plain, removed])[0].columns["removed"] == [False, True]
    assert "again" not in runs_of([Submit(a_task("a"))])[0].columns
    assert "outputs" not in runs_of([Commit("a", "n1.1.1", "n1")])[0].columns


def test_outputs_of_a_commit_are_one_after_the_other():
    outputs = (OutputFile("x", 1, "xx"), OutputFile("y", 2))

    told = runs_of([Commit("a", "n1.1.1", "n1", (), 1, outputs)])[0].columns["outputs"]

    assert [told[0][:3], told[0][4:7]] == [["x", 1, "xx"], ["y", 2, ""]]


@pytest.mark.parametrize("digest", ["", "abc", "AB", "xy", "a\u00e9"])
def test_a_digest_that_is_not_pairs_of_small_hex_digits_stays_as_it_is(digest: str):
    assert short_digest(digest) == digest.encode()


def test_a_short_digest_has_a_byte_for_two_digits_after_its_mark():
    assert short_digest("00ff" * 16) == b"\0" + b"\x00\xff" * 16
