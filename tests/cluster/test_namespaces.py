"""A cluster whose hosts have addresses of their own: cut off, slowed down, with wrong clocks."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.laptops import contents_of
from cluster.namespaces import BadLink, SpacedCluster, spaced_cluster
from cluster.plainly import plain_results, written
from dataward import write_workflow
from dataward.cluster.history import FinalState, broken_promises
from dataward.cluster.troubles import Trouble, TroubleKind, Troubles
from dataward.generate import generate, make_runnable
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import Event, TaskTakenOver
from dataward.model.ids import NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, Workflow
from dataward.reports.event_file import EventFileReader
from file_changes import wait_for_files

LEASE_SECONDS = 3.0
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SpacedCluster]:
    with spaced_cluster(tmp_path / "lab") as up:
        yield up


def events_of(cluster: SpacedCluster, run: str) -> dict[NodeId, list[Event]]:
    return {
        NodeId(node): list(EventFileReader(path))
        for node in cluster.nodes
        if (path := cluster.path / "depots" / node / "runs" / run / "events").exists()
    }


def taken_over(cluster: SpacedCluster, run: str) -> set[NodeId]:
    """The nodes whose tasks others took over."""
    events = [event for events in events_of(cluster, run).values() for event in events]
    return {event.node for event in events if isinstance(event, TaskTakenOver)}


def check_history(cluster: SpacedCluster, run: str, workflow: Workflow, *troubles: Trouble) -> None:
    """All promises were kept, as far as events tell; what was fetched is compared elsewhere."""
    ids = workflow.task_ids
    parents = {
        ids[task]: [ids[parent] for parent in row]
        for task, row in enumerate(workflow.parents.rows())
    }
    none: dict[FileId, str] = {}
    final = FinalState(dict.fromkeys(ids, TaskState.COMPLETE), {}, none, none, none)
    # This machine may have no time for one of its hosts, so leases may end at any time.
    known = Troubles([*troubles, Trouble(TroubleKind.BUSY, 0.0)], LEASE_SECONDS)
    assert broken_promises(events_of(cluster, run), parents, final, known) == []


@contextmanager
def gated(tmp_path: Path, count: int) -> Iterator[Workflow]:
    """Tasks that say when they have started, and end when this does; one joins them."""
    (tmp_path / "started").mkdir()
    wf = WorkflowBuilder("gated")
    for number in range(count):
        wait = f"flock --shared {tmp_path}/gate true"
        wf.command(
            f"touch {tmp_path}/started/{number}; {wait}; echo {number} > {{outputs}}",
            id=f"t{number}",
            outputs=[f"f{number}"],
        )
    names = [f"f{number}" for number in range(count)]
    wf.command("cat {inputs} > all", id="all", inputs=names, outputs=["all"])
    with open(tmp_path / "gate", "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield wf.build()


def submit_and_wait_until_each_node_runs_a_task(
    cluster: SpacedCluster, workflow: Workflow, tmp_path: Path
) -> str:
    """The run's name."""
    write_workflow(workflow, tmp_path / "w.json")
    run = cluster.submit(tmp_path / "w.json")
    started = tmp_path / "started"
    wait_for_files(lambda: len(list(started.iterdir())) >= 3, "each node runs a task", started)
    return run


def test_a_node_that_is_cut_off_is_replaced_and_comes_back(
    cluster: SpacedCluster, tmp_path: Path
) -> None:
    cluster.start("n1", "n2", "n3")
    with gated(tmp_path, 9) as workflow:
        run = submit_and_wait_until_each_node_runs_a_task(cluster, workflow, tmp_path)

        cluster.lan.cut("n3")
        cluster.wait_for_members("n1", "n2")
        logs = [cluster.path / "depots" / node / "runs" / run for node in cluster.nodes]
        wait_for_files(
            lambda: taken_over(cluster, run) == {"n3"}, "its tasks are taken over", *logs
        )
        cluster.lan.heal("n3")
        cluster.wait_for_members("n1", "n2", "n3")
    ended = cluster.wait(run)
    cluster.fetch(run, tmp_path / "got")

    assert ended["state"] == "complete"
    assert contents_of(tmp_path / "got") == {"all": b"".join(b"%d\n" % n for n in range(9))}
    assert taken_over(cluster, run) == {"n3"}
    check_history(cluster, run, workflow, Trouble(TroubleKind.SILENT, 0.0, node=NodeId("n3")))


def test_a_run_ends_without_a_node_that_stays_cut_off(
    cluster: SpacedCluster, tmp_path: Path
) -> None:
    cluster.start("n1", "n2", "n3")
    with gated(tmp_path, 6) as workflow:
        run = submit_and_wait_until_each_node_runs_a_task(cluster, workflow, tmp_path)

        cluster.lan.cut("n2")
    ended = cluster.wait(run)
    cluster.fetch(run, tmp_path / "got")

    assert ended["state"] == "complete"
    assert contents_of(tmp_path / "got") == {"all": b"".join(b"%d\n" % n for n in range(6))}


def test_links_may_be_slow_late_and_lossy(cluster: SpacedCluster, tmp_path: Path) -> None:
    cluster.start_store()
    cluster.start_node("n1")
    cluster.start_node("n2")
    cluster.start_node("n3", link=BadLink(delay_seconds=0.05))
    cluster.start_node("n4", link=BadLink(delay_seconds=0.002, loss=0.02))
    cluster.lan.slow_down("n2", "10mbit")
    cluster.wait_for_members("n1", "n2", "n3", "n4")
    made = generate("montage", 24, seed=4)
    scale = 200_000 / float(made.size_bytes.mean())
    workflow = make_runnable(made, time_scale=0, data_scale=scale)

    run = cluster.submit(written(workflow, tmp_path))
    ended = cluster.wait(run)
    cluster.fetch(run, tmp_path / "got")

    assert ended["state"] == "complete"
    assert contents_of(tmp_path / "got") == plain_results(workflow, tmp_path / "plain")
    check_history(cluster, run, workflow)


def monotonic_clock(seconds: int) -> list[str]:
    """Words before a command, for a clock since boot that is ahead by so much."""
    return ["unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds)]


def wall_clock(offset: str) -> list[str]:
    if not Path(FAKETIME).exists():
        pytest.skip("shifting the wall clock needs libfaketime")
    return ["env", f"LD_PRELOAD={FAKETIME}", "DONT_FAKE_MONOTONIC=1", f"FAKETIME={offset}"]


@pytest.mark.parametrize("which", ["monotonic", "wall"])
def test_clocks_may_differ(which: str, cluster: SpacedCluster, tmp_path: Path) -> None:
    if which == "monotonic":
        if not shutil.which("unshare"):
            pytest.skip("shifting a clock needs the command unshare")
        skews = [monotonic_clock(100_000), monotonic_clock(7), []]
    else:
        skews = [wall_clock("-30m"), wall_clock("+30m"), []]
    cluster.start_store()
    for number, before in enumerate(skews, 1):
        cluster.start_node(f"n{number}", *before)
    cluster.wait_for_members("n1", "n2", "n3")
    workflow = make_runnable(generate("inspiral", 30, seed=5), time_scale=0, data_scale=1e-5)

    run = cluster.submit(written(workflow, tmp_path))
    ended = cluster.wait(run)
    cluster.fetch(run, tmp_path / "got")

    assert ended["state"] == "complete"
    assert contents_of(tmp_path / "got") == plain_results(workflow, tmp_path / "plain")
    check_history(cluster, run, workflow)
