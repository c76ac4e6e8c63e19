"""A run that cannot go on at one host, for the host's disk, begins there again when it can."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import write_workflow
from dataward.model.builder import WorkflowBuilder
from dataward.model.states import RunState
from file_changes import wait_for_files

RUN = "obstructed"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path / "lab", nodes=2) as up:
        yield up


def submit_a_pair(cluster: LaptopCluster, tmp_path: Path) -> None:
    """Two tasks that wait for each other: two nodes of one slot have to run them."""
    os.mkfifo(tmp_path / "pipe")
    wf = WorkflowBuilder("pair")
    wf.command(f"echo met > {tmp_path}/pipe", id="t0")
    wf.command(f"cat {tmp_path}/pipe", id="t1")
    write_workflow(wf.build(), tmp_path / "w.json")
    cluster.submit(tmp_path / "w.json", fresh=True, name=RUN)


@pytest.mark.parametrize(
    ("obstacle", "said"),
    [
        (f"{RUN}/commits/", f"run {RUN} ended here"),  # where the journal should be
        (RUN, "Not a directory"),  # where the run's directory should be
    ],
)
def test_a_host_begins_a_run_again_when_its_disk_lets_it(
    obstacle: str, said: str, cluster: LaptopCluster, tmp_path: Path
) -> None:
    path = cluster.path / "depots" / "n2" / "runs" / obstacle
    path.parent.mkdir(parents=True, exist_ok=True)
    if obstacle.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.touch()
    submit_a_pair(cluster, tmp_path)
    log = cluster.path / "logs" / "n2.log"
    wait_for_files(lambda: said in log.read_text(), "the host says what is wrong", log.parent)

    path.rmdir() if path.is_dir() else path.unlink()

    assert cluster.wait(RUN).run.state is RunState.COMPLETE
