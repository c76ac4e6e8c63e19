"""A host whose process has ended is noticed by its closed connections, not by its lease."""

from pathlib import Path

from cluster.laptops import laptop_cluster
from dataward import write_workflow
from dataward.cluster.host_watch import watched_by
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.states import RunState


def members(*names: str) -> list[Member]:
    return [Member(NodeId(name), f"{name}:1", 1, 1, 1) for name in names]


def test_each_host_watches_the_next_two() -> None:
    known = members("a", "b", "c", "d")

    watched = {m.node: [w.node for w in watched_by(m.node, known)] for m in known}

    assert watched == {"a": ["b", "c"], "b": ["c", "d"], "c": ["d", "a"], "d": ["a", "b"]}


def test_a_host_that_is_alone_watches_nobody() -> None:
    assert watched_by(NodeId("a"), members("a")) == []


def test_the_tasks_of_a_killed_node_are_taken_over_long_before_its_lease_ends(
    tmp_path: Path,
) -> None:
    wf = WorkflowBuilder("many")
    for number in range(40):
        wf.command(f"sleep 0.1; echo {number} > {{outputs}}", outputs=[f"f{number}"])
    write_workflow(wf.build(), tmp_path / "w.json")
    with laptop_cluster(tmp_path / "lab", nodes=2, lease="1h") as cluster:
        run = cluster.submit(tmp_path / "w.json", fresh=True, copies=2).run.name
        cluster.kill("n2")

        ended = cluster.wait(run)

    assert ended.run.state is RunState.COMPLETE
    assert ended.counts == {"complete": 40}
