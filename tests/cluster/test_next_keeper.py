"""A keeper that takes over from one that died while it submitted a run's tasks."""

import asyncio
from pathlib import Path

import pytest

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import write_workflow
from dataward.cluster.access import read_access
from dataward.cluster.description import RunOrders, TaskList, unpacked
from dataward.cluster.results import part_of
from dataward.model.builder import WorkflowBuilder
from dataward.model.members import ClusterRun
from dataward.model.operations import Submit
from dataward.model.states import RunState
from dataward.stores.connection import connect
from dataward.stores.valkey import ValkeyStore
from file_changes import wait_for_files

RUN = "half-submitted"


def submit_for_a_keeper(cluster: LaptopCluster, run: ClusterRun, count: int) -> None:
    """Put the first tasks in the store, as a keeper does, and queue none of them."""
    orders = unpacked(cluster.ask(lambda v: part_of(v, run, run.description)), RunOrders)
    tasks = unpacked(cluster.ask(lambda v: part_of(v, run, orders.tasks)), TaskList)
    access = read_access(cluster.laptop.directory.access_file("node"))

    async def submit() -> None:
        async with connect(access.store) as connection:
            store = ValkeyStore(connection, f"{access.cluster}.{run.name}", run.shards)
            await store.call([Submit(spec) for spec in tasks.specs[:count]])

    asyncio.run(submit())


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_keeper_has_only_submitted_the_next_one_queues(count: int, tmp_path: Path) -> None:
    wf = WorkflowBuilder("three")
    for name in ("a", "b"):
        wf.command(f"echo {name} > {name}", id=name, outputs=[name])
    wf.command("cat a b > c", id="c", inputs=["a", "b"], outputs=["c"])
    write_workflow(wf.build(), tmp_path / "w.json")
    with laptop_cluster(tmp_path / "lab", nodes=2) as cluster:
        obstacles = {node: cluster.path / "depots" / node / "runs" / RUN for node in cluster.nodes}
        for obstacle in obstacles.values():  # no host can begin the run
            obstacle.parent.mkdir(parents=True, exist_ok=True)
            obstacle.touch()
        run = cluster.submit(tmp_path / "w.json", fresh=True, name=RUN).run
        first, second = run.keepers
        submit_for_a_keeper(cluster, run, count)

        cluster.kill(first)
        log = cluster.path / "logs" / f"{second}.log"
        wait_for_files(lambda: f"{first} has gone" in log.read_text(), "it is noticed", log.parent)
        obstacles[second].unlink()

        assert cluster.wait(RUN, seconds=60.0).run.state is RunState.COMPLETE
        assert cluster.fetch(RUN, tmp_path / "results") == {"c": b"a\nb\n"}
