"""Runs that share hosts do not wait for each other's long tasks; who leaves loses nothing."""

import os
import select
from pathlib import Path

from blake3 import blake3

from cluster.laptops import LaptopCluster, contents_of, laptop_cluster
from dataward import WorkflowBuilder, write_workflow
from dataward.cluster.run_here import RunDirectoryHere
from dataward.model.ids import NodeId
from dataward.model.states import RunState
from file_changes import wait_for_path


def some_files(path: Path, count: int, command: str = "true") -> Path:
    wf = WorkflowBuilder(path.stem)
    for number in range(count):
        name = f"{path.stem}-{number}"
        wf.command(f"{command}; echo {name} > {{outputs}}", outputs=[name])
    write_workflow(wf.build(), path)
    return path


def digest_of(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()


def has_left(cluster: LaptopCluster, node: str) -> None:
    """Drain a node, and return when its process has ended."""
    process = os.pidfd_open(cluster.pid_of(node))
    cluster.ask(lambda visitor: visitor.drain(NodeId(node)))
    select.select([process], [], [])
    os.close(process)


def test_a_short_run_does_not_wait_behind_the_long_task_of_another(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    os.mkfifo(gate)
    long = some_files(tmp_path / "long.json", 1, f"touch {begun}; cat {gate}")
    with laptop_cluster(tmp_path / "lab", nodes=2) as cluster:
        first = cluster.submit(long).run.name
        wait_for_path(begun)

        for number in range(3):
            short = some_files(tmp_path / f"short{number}.json", 1)
            ended = cluster.wait(cluster.submit(short).run.name)
            assert ended.run.state is RunState.COMPLETE

        gate.open("w").close()
        assert cluster.wait(first).run.state is RunState.COMPLETE


def test_the_results_of_ended_runs_outlive_the_host_that_had_them(tmp_path: Path) -> None:
    workflow = some_files(tmp_path / "w.json", 6)
    with laptop_cluster(tmp_path / "lab", nodes=2) as cluster:
        run = cluster.submit(workflow).run.name
        cluster.wait(run)

        has_left(cluster, "n2")

        cluster.fetch(run, tmp_path / "got")
        kept = RunDirectoryHere(cluster.path / "depots" / "n1", run).kept()
    assert kept == {digest_of(path) for path in (tmp_path / "got").iterdir()}
    assert contents_of(tmp_path / "got") == {f"w-{n}": f"w-{n}\n".encode() for n in range(6)}
