"""Depots that hold little: a run completes if it can, and says what it lacks if it cannot."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import WorkflowBuilder, write_workflow
from dataward.cluster.visitor import Visitor
from dataward.model.states import RunState

MEGABYTE = 1_000_000
CAPACITY_BYTES = 4 * MEGABYTE
FILE_BYTES = 900_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    path, options = tmp_path_factory.mktemp("little") / "lab", ["--capacity", "4MB"]
    with laptop_cluster(path, nodes=2, options=options) as up:
        yield up


def a_join(path: Path) -> Path:
    """Five files of 900 kB, and a task that reads all of them: 4.5 MB, more than a depot holds."""
    wf = WorkflowBuilder("join")
    files = [f"f{number}" for number in range(5)]
    for file in files:
        wf.command(f"head -c {FILE_BYTES} /dev/zero > {{outputs}}", outputs=[file])
    wf.command("cat {inputs} > {outputs}", inputs=files, outputs=["all"], id="join")
    write_workflow(wf.build(), path)
    return path


def dataward(*words: str) -> str:
    command = [sys.executable, "-m", "dataward.cli.main", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


async def waiting(visitor: Visitor, run: str) -> list[str]:
    """What is said of tasks that wait for room, once one does."""
    async with asyncio.timeout(300):
        while not (said := await visitor.waits_for_room(run)):
            await visitor.run(run)
    return said


def test_a_run_completes_whose_files_together_are_more_than_all_depots_hold(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    wf = WorkflowBuilder("chain")
    count = 4 * CAPACITY_BYTES // FILE_BYTES  # twice what both depots hold
    for number in range(count):
        before = [f"f{number - 1}"] if number else []
        wf.command(
            f"head -c {FILE_BYTES - number} /dev/zero > {{outputs}}",
            inputs=before,
            outputs=[f"f{number}"],
        )
    write_workflow(wf.build(), tmp_path / "w.json")

    run = cluster.submit(tmp_path / "w.json", settings=("retry_seconds_max=0.1",)).run.name
    ended = cluster.wait(run, seconds=300)

    assert ended.run.state is RunState.COMPLETE
    assert cluster.fetch(run, tmp_path / "got") == {f"f{count - 1}": bytes(FILE_BYTES - count + 1)}
    cluster.ask(lambda visitor: visitor.clean(run))


def test_a_task_that_fits_into_no_depot_waits_and_then_fails_and_says_what_it_needs(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    access = str(cluster.submit_access)
    patient = ("retry_seconds_max=1", "full_disk_tries=10000")
    run = cluster.submit(a_join(tmp_path / "w.json"), name="patient", settings=patient).run.name
    said = cluster.ask(lambda visitor: waiting(visitor, run))
    shown = dataward("status", run, "--access", access)
    cluster.ask(lambda visitor: visitor.cancel(run))
    cluster.wait(run)
    cluster.ask(lambda visitor: visitor.clean(run))
    hasty = ("retry_seconds_max=0.1", "full_disk_tries=2")

    run = cluster.submit(a_join(tmp_path / "w.json"), name="hasty", settings=hasty).run.name
    ended = cluster.wait(run, seconds=300)

    assert all("waits for room: n" in sentence for sentence in said)
    assert "waits for room: n" in shown
    assert ended.run.state is RunState.FAILED
    why = dataward("why", "join", "--run", run, "--access", access)
    assert "has no room for " in why
    assert "--capacity" in why


def test_a_run_lets_go_of_what_was_read_for_another_one(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    wf, large = WorkflowBuilder("first"), 1_500_000
    wf.command(f"head -c {large} /dev/zero > {{outputs}}", outputs=["f0"])
    wf.command("tr '\\0' a < {inputs} > {outputs}", inputs=["f0"], outputs=["f1"])
    wf.command("wc -c < {inputs} > {outputs}", inputs=["f1"], outputs=["size"])
    wf.command(f"cat {{inputs}} {gate} > {{outputs}}", inputs=["size"], outputs=["end"])
    write_workflow(wf.build(), tmp_path / "first.json")
    wf = WorkflowBuilder("second")
    wf.command("head -c 2000000 /dev/zero | tr '\\0' b > {outputs}", outputs=["other"])
    write_workflow(wf.build(), tmp_path / "second.json")
    options = ["--capacity", "4MB"]
    with laptop_cluster(tmp_path / "lab", nodes=1, slots=2, options=options) as cluster:
        first = cluster.submit(tmp_path / "first.json").run.name
        with gate.open("w"):  # which waits until the last task reads
            second = cluster.submit(tmp_path / "second.json").run.name

            assert cluster.wait(second, seconds=300).run.state is RunState.COMPLETE
        assert cluster.wait(first).run.state is RunState.COMPLETE
