"""What took long to make, and is quick to move, is copied to another node when it is committed."""

from random import Random
from typing import Any

import pytest

from dataward.model.messages import Stock
from dataward.model.operations import OutputFile
from dataward.node.safekeeping import safekeeper, worth_a_copy
from dataward.node.settings import NodeSettings
from node.fake_world import FakeWorld, a_task

SETTINGS = NodeSettings(safe_bytes_per_second=100.0, safe_seconds=10.0)


def outputs(*sizes: int) -> list[OutputFile]:
    return [OutputFile(f"out{i}", size, f"digest{i}") for i, size in enumerate(sizes)]


def test_what_took_long_and_is_small_is_worth_a_copy() -> None:
    (file,) = worth_a_copy("t", outputs(1000), 10.0, SETTINGS)

    assert (file.id, file.size_bytes, file.producer, file.digest) == ("out0", 1000, "t", "digest0")


@pytest.mark.parametrize(
    ("sizes", "seconds"), [((1001,), 10.0), ((500, 501), 10.0), ((10,), 9.9), ((), 99.0)]
)
def test_what_is_large_beside_its_run_or_quickly_made_again_is_not(
    sizes: tuple[int, ...], seconds: float
) -> None:
    assert worth_a_copy("t", outputs(*sizes), seconds, SETTINGS) == ()


def test_empty_files_need_no_copy() -> None:
    assert [file.id for file in worth_a_copy("t", outputs(0, 5), 10.0, SETTINGS)] == ["out1"]


def test_any_other_node_keeps_the_copy() -> None:
    nodes = ["n0", "n1", "n2"]

    kept_by = {safekeeper("n1", nodes, Random(seed)) for seed in range(50)}

    assert kept_by == {"n0", "n2"}


def test_a_node_that_is_alone_has_nobody_to_keep_it() -> None:
    assert safekeeper("n0", ["n0"], Random(1)) is None


# --- at a node -----------------------------------------------------------------------------------


class Place(FakeWorld):
    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=2, **settings)
        self.start(self.committer.run())

    def commits(
        self, ahead: tuple[tuple[str, str], ...] = (), **fields: Any
    ) -> list[tuple[str, tuple[str, ...]]]:
        """To whom which files were named after a task of a second's estimate was committed."""
        spec = a_task("t", writes=["out"], **{"children": ("child",), **fields})
        attempt, begun = self.begin(spec)
        stored = self.do(self.depot.store_outputs(spec))
        self.state.identity.send_ahead("t", ahead)
        self.state.outbox.commit("t", attempt, begun.generation, stored, awaited=True)
        self.pass_time()
        return [(to, tuple(f.id for f in stock.files)) for to, stock in self.sent(Stock)]


def test_a_committed_output_is_named_to_the_other_node() -> None:
    assert Place(safe_bytes_per_second=1e6, safe_seconds=0.5).commits() == [("n1", ("out",))]


def test_what_no_task_reads_is_not_copied() -> None:
    assert Place(safe_bytes_per_second=1e6, safe_seconds=0.5).commits(children=()) == []


def test_nothing_is_copied_unless_asked_for() -> None:
    assert Place(safe_seconds=0.5).commits() == []


def test_a_committed_output_is_named_to_the_nodes_that_are_planned_to_read_it() -> None:
    ahead = (("out", "n1"), ("out", "n0"), ("lost", "n1"))

    # Not to itself, and nothing that the task did not write.
    assert Place().commits(ahead) == [("n1", ("out",))]
