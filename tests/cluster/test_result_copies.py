"""Results are at as many nodes as were asked for when a run ends."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from blake3 import blake3

from cluster.laptops import laptop_cluster
from dataward import write_workflow
from dataward.cluster.result_copies import ResultCopies, scarce_results
from dataward.cluster.run_here import RunDirectoryHere
from dataward.model.answers import Standing
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.messages import Message, Stock
from dataward.model.operations import Copy, Look, TaskSpec
from dataward.model.states import RunState, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.store_client import StoreClient
from file_changes import wait_for_files
from node.fake_world import a_task

N1, N2, N3 = (NodeId(f"n{number}") for number in (1, 2, 3))
OUT = FileId("t.out")
PATIENCE_SECONDS = 6.0


def stands(*nodes: NodeId, state: TaskState = TaskState.COMPLETE) -> Standing:
    copies = tuple(Copy(OUT, node, 10, "aa") for node in nodes)
    return Standing(TaskId("t"), state, 1, copies=copies)


class OneTask:
    """A store with one task, which has written one result."""

    def __init__(self, *nodes: NodeId) -> None:
        self.standing = stands(*nodes)
        self.sent: list[tuple[NodeId, Stock]] = []
        self.reopened: list[dict[TaskId, int]] = []
        self.members = [N1, N2, N3]
        self.specs = [cast(TaskSpec, a_task(writes=[OUT]))]
        self.copies = ResultCopies(
            2, frozenset({OUT}), self.members, cast(StoreClient, self), self._send, self._reopen,
            PATIENCE_SECONDS,
        )  # fmt: skip

    async def call(self, operations: list[Look]) -> list[Standing]:
        return [self.standing for _ in operations]

    def _send(self, node: NodeId, message: Message) -> None:
        assert isinstance(message, Stock)
        self.sent.append((node, message))

    async def _reopen(self, generations: Mapping[TaskId, int]) -> None:
        self.reopened.append(dict(generations))

    def are_there(self, now: float) -> bool:
        return asyncio.run(self.copies.are_there(self.specs, now))


def test_only_members_count_and_only_of_complete_tasks() -> None:
    wanted = frozenset({OUT})

    assert scarce_results([stands(N1, N2)], wanted, [N1, N2, N3], 2) == []
    assert scarce_results([stands(N1)], wanted, [N1], 2) == []
    assert scarce_results([stands(N1, state=TaskState.FAILED)], wanted, [N1, N2], 2) == []
    assert scarce_results([stands(N1)], frozenset(), [N1, N2], 2) == []
    (found,) = scarce_results([stands(N1, N2)], wanted, [N1, N3], 2)
    assert (found.file.digest, found.file.producer, found.holders) == ("aa", "t", (N1,))


def test_another_node_is_asked_for_a_copy_that_is_missing_and_only_once() -> None:
    place = OneTask(N1)

    assert not place.are_there(0.0)
    assert not place.are_there(1.0)

    ((node, stock),) = place.sent
    assert node in (N2, N3)
    assert stock.keep
    place.standing = stands(N1, node)
    assert place.are_there(2.0)


def test_a_copy_that_does_not_come_is_not_waited_for_for_ever() -> None:
    place = OneTask(N1)
    place.are_there(0.0)

    assert place.are_there(PATIENCE_SECONDS + 1)
    assert place.reopened == []


def test_a_result_that_nobody_has_any_more_is_made_again_after_a_while() -> None:
    place = OneTask(NodeId("gone"))

    assert not place.are_there(0.0)
    assert not place.are_there(PATIENCE_SECONDS - 1)
    assert place.reopened == []
    assert not place.are_there(PATIENCE_SECONDS + 1)
    assert place.reopened == [{"t": 1}]


def test_when_a_run_ends_its_results_are_at_two_nodes(tmp_path: Path) -> None:
    wf = WorkflowBuilder("kept")
    wf.command("echo precious > out; cp out again", id="make", outputs=["out", "again"])
    write_workflow(wf.build(), tmp_path / "w.json")
    digest = blake3(b"precious\n").hexdigest()
    with laptop_cluster(tmp_path / "lab", 3, lease="2s") as cluster:
        run = cluster.submit(tmp_path / "w.json", fresh=True, copies=2).run.name

        assert cluster.wait(run).run.state is RunState.COMPLETE

        have = [
            node
            for node in cluster.nodes
            if list((cluster.path / "depots" / node / "runs" / run / "files").glob(f"{digest}*"))
        ]
        assert len(have) >= 2
        cluster.kill(have[0])
        assert cluster.fetch(run, tmp_path / "got")["out"] == b"precious\n"


def test_copies_of_results_stay_at_nodes_that_were_started_again(tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    os.mkfifo(first)
    os.mkfifo(last)
    wf = WorkflowBuilder("kept")
    wf.command(f"cat {first}; echo precious > {{outputs}}", id="make", outputs=["out"])
    wf.command(f"cat {last}", id="wait")
    write_workflow(wf.build(), tmp_path / "w.json")
    digest = blake3(b"precious\n").hexdigest()
    with laptop_cluster(tmp_path / "lab", 2, slots=2, lease="1h") as cluster:
        run = cluster.submit(tmp_path / "w.json", fresh=True, copies=2).run.name
        for node in cluster.nodes:
            here = RunDirectoryHere(cluster.path / "depots" / node, run)
            wait_for_files(here.events.exists, "it takes part", here.path.parent, here.path)
        first.open("w").close()
        for node in cluster.nodes:
            here = RunDirectoryHere(cluster.path / "depots" / node, run)
            wait_for_files(partial(has_result, here, digest), "it has a copy", here.path)
        for node in cluster.nodes:
            cluster.kill(node)
            cluster.start(2)
        last.open("w").close()

        assert cluster.wait(run).run.state is RunState.COMPLETE
        depots = [cluster.path / "depots" / node for node in cluster.nodes]
        assert all(has_result(RunDirectoryHere(depot, run), digest) for depot in depots)


def has_result(directory: RunDirectoryHere, digest: str) -> bool:
    return digest in directory.kept()
