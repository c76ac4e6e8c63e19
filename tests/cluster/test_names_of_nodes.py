"""Each node has a name of its own; one that is started again has its old one."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import WorkflowBuilder, write_workflow
from dataward.cluster.exchange import ClusterFacts
from dataward.model.states import RunState

LIMIT_SECONDS = 300


def node_command(cluster: LaptopCluster, name: str, depot: Path) -> list[str]:
    access = str(cluster.laptop.directory.access_file("node"))
    words = ["node", "--access", access, "--name", name, "--depot", str(depot), "--slots", "1"]
    return [sys.executable, "-m", "dataward.cli.main", *words, *cluster.options]


def incarnations(cluster: LaptopCluster) -> dict[str, int]:
    async def ask(visitor: object) -> ClusterFacts:
        return await visitor.cluster()  # type: ignore[attr-defined,no-any-return]

    return {str(member.node): member.incarnation for member in cluster.ask(ask).members}


def test_a_second_node_of_a_name_is_refused_and_the_first_one_goes_on(tmp_path: Path) -> None:
    wf = WorkflowBuilder("one")
    wf.command("echo made > {outputs}", outputs=["f"])
    write_workflow(wf.build(), tmp_path / "w.json")
    with laptop_cluster(tmp_path / "lab", nodes=1) as cluster:
        before = incarnations(cluster)

        second = subprocess.run(
            node_command(cluster, "n1", tmp_path / "other"),
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

        assert second.returncode != 0
        assert "there is a node called n1 already, at " in second.stderr
        assert "--name" in second.stderr
        assert incarnations(cluster) == before
        run = cluster.submit(tmp_path / "w.json").run.name
        assert cluster.wait(run).run.state is RunState.COMPLETE


def test_a_node_that_crashed_is_started_again_at_once_though_its_lease_goes_on(
    tmp_path: Path,
) -> None:
    with laptop_cluster(tmp_path / "lab", nodes=1, lease="1h") as cluster:
        before = incarnations(cluster)
        cluster.kill("n1")

        cluster.start(1)

        assert incarnations(cluster) == {"n1": before["n1"] + 1}


def test_a_node_that_did_not_answer_when_another_took_its_name_ends(tmp_path: Path) -> None:
    with laptop_cluster(tmp_path / "lab", nodes=1, lease="1h") as cluster:
        first = os.pidfd_open(cluster.pid_of("n1"))
        signal.pidfd_send_signal(first, signal.SIGSTOP)
        second = subprocess.Popen(
            node_command(cluster, "n1", tmp_path / "other"), stderr=subprocess.PIPE, text=True
        )
        try:
            assert second.stderr is not None
            for line in second.stderr:
                if " up at " in line:
                    break

            signal.pidfd_send_signal(first, signal.SIGCONT)
            ended, _, _ = select.select([first], [], [], LIMIT_SECONDS)

            assert ended
            said = (cluster.path / "logs" / "n1.log").read_text()
            assert "another node called n1 was started" in said
            assert second.poll() is None
        finally:
            second.kill()
            second.communicate()
            os.close(first)
