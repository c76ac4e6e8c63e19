"""The commands of a cluster that is up, when something goes wrong or somebody presses Ctrl-C."""

import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Dataward
from cluster.laptops import LaptopCluster, laptop_cluster
from dataward.cli.exit_codes import ExitCode
from dataward.formats.write import write_workflow
from dataward.model.builder import WorkflowBuilder
from file_changes import wait_for_files


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path_factory.mktemp("mishaps") / "lab", 1) as up:
        yield up


@pytest.fixture
def access(cluster: LaptopCluster) -> Path:
    return cluster.submit_access


def one_task(command: str) -> Path:
    wf = WorkflowBuilder("one")
    wf.command(command, id="t", outputs=["o"])
    write_workflow(wf.build(), "one.json")
    return Path("one.json")


def started(*words: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "dataward.cli.main", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_whoever_stops_waiting_is_told_that_the_run_goes_on(
    dataward: Dataward, access: Path, tmp_path: Path
) -> None:
    os.mkfifo("gate")
    file = one_task(f"cat {tmp_path}/gate > o")
    process = started("submit", file, "--wait", "--name", "waited-for", "--access", access)
    with open("gate", "wb"):  # the task has begun
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == ExitCode.INTERRUPTED
    assert "waited-for goes on in the cluster" in err
    assert dataward("watch", "waited-for", "--quiet", "--access", access).code == ExitCode.OK


def test_nothing_runs_of_a_cancelled_run(dataward: Dataward, access: Path, tmp_path: Path) -> None:
    os.mkfifo("gate")
    file = one_task(f"cat {tmp_path}/gate > o")
    assert dataward("submit", file, "--name", "cancelled", "--access", access).code == ExitCode.OK
    with open("gate", "wb"):  # the task has begun
        cancelled = dataward("cancel", "cancelled", "--access", access)

    said = dataward("status", "cancelled", "--access", access)  # some hosts may not know it yet

    assert cancelled.code == ExitCode.OK

    assert "cancelled: cancelled in" in said.out
    assert "running" not in said.out


def test_results_that_cannot_be_written_here_can_still_be_fetched(
    dataward: Dataward, access: Path
) -> None:
    file = one_task("echo 1 > o")
    Path("taken").write_text("a file")

    said = dataward("run", file, "--access", access, "--out", "taken")

    assert said.code == ExitCode.CANNOT_WRITE
    fetch = next(line for line in said.err.splitlines() if "dataward fetch" in line)
    words = shlex.split(fetch.partition("dataward ")[2].replace("DIR", "there"))
    assert dataward(*words).code == ExitCode.OK
    assert Path("there/o").read_text() == "1\n"


def test_a_port_that_is_taken_is_called_that(dataward: Dataward, cluster: LaptopCluster) -> None:
    access = cluster.laptop.directory.access_file("node")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"

        process = started("node", "--access", access, "--listen", place, "--name", "late")
        _, err = process.communicate(timeout=60)

    assert process.returncode == ExitCode.USAGE
    assert f"cannot listen at {place}: Address already in use" in err


def test_whoever_interrupts_the_start_is_told_how_to_end_what_has_started(
    dataward: Dataward, cluster: LaptopCluster, tmp_path: Path
) -> None:
    process = started("cluster", "up", "other", "--nodes", "1")
    other = tmp_path / "other"
    wait_for_files((other / "nodes.json").exists, "a node is started", tmp_path, other)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    said = dataward("cluster", "down", "other")  # whatever was said: nothing may outlive the test

    assert process.returncode == ExitCode.INTERRUPTED
    assert "dataward cluster down other" in err
    assert said.out == "1 node and the store ended\n"


def test_what_a_failing_task_printed_is_told_at_the_end(dataward: Dataward, access: Path) -> None:
    file = one_task("echo oops >&2; exit 3")

    said = dataward("run", file, "--access", access, "--out", "here")
    logs = dataward("logs", "here", "t")

    assert said.code == ExitCode.FAILED
    assert "    | oops" in said.out
    assert logs.out == "oops\n"


def test_what_a_task_printed_elsewhere_is_not_taken_for_nothing(
    dataward: Dataward, access: Path
) -> None:
    file = one_task("echo hello; echo 1 > o")

    said = dataward("run", file, "--access", access, "--out", "here")
    here = dataward("logs", "here", "t")

    last = said.out.splitlines()[-1]
    assert last.startswith("logs     dataward logs one-")
    assert here.code == ExitCode.BAD_INPUT
    assert "at the cluster's nodes; see it with: dataward logs one-" in here.err
    words = shlex.split(last.partition("dataward ")[2].replace("TASK", "t"))
    assert dataward(*words).out == "hello\n"


def test_what_no_node_tells_any_more_is_called_that(
    dataward: Dataward, cluster: LaptopCluster, access: Path
) -> None:
    file = one_task("echo 1 > o")
    there = ["--access", access]
    dataward("submit", file, "--fresh", "--wait", "--name", "forgotten", *there)
    (cluster.path / "depots" / "n1" / "runs" / "forgotten" / "events").unlink()

    why = dataward("why", "t", "--run", "forgotten", *there)
    logs = dataward("logs", "forgotten", "t", *there)
    events = dataward("events", "forgotten", "-o", "x.events", *there)
    export = dataward("export", "forgotten", "-o", "x.json", *there)

    warning = "warning: forgotten: nothing is told of 1 complete task: it is known only at nodes"
    assert all(warning in said.err for said in (why, logs, events, export))
    assert why.code == logs.code == ExitCode.BAD_INPUT
    assert "nothing is known of 't'" in why.err
    assert "nothing is known of 't'" in logs.err
    assert "warning: forgotten: 1 of 1 tasks were not measured" in export.err


@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_refused_deadline_is_told_to_programs_as_on_this_machine(
    command: str, dataward: Dataward, access: Path
) -> None:
    file = one_task("printf 1 > o")  # no other test lets one be measured

    said = dataward(command, file, "--deadline", "1h", "--fresh", "--json", "--access", access)

    assert said.code == ExitCode.REFUSED
    told = json.loads(said.out)
    assert told["state"] == "refused"
    assert told["unknown_types"] == ["printf"]


def test_a_second_start_tells_what_is_up(dataward: Dataward, cluster: LaptopCluster) -> None:
    one = cluster.path

    again = dataward("cluster", "up", one, "--nodes", "1")
    slots = dataward("cluster", "up", one, "--nodes", "1", "--slots", "7")
    lease = dataward("cluster", "up", one, "--nodes", "1", "--lease", "9s")

    assert again.out.startswith("1 node of 1 slot up in ")
    assert slots.code == lease.code == ExitCode.USAGE
    assert "n1 is up already with 1 slot, not 7; end the cluster first, with: " in slots.err
    assert "n1 is up already with another lease than 9s" in lease.err


def test_tasks_of_a_run_that_has_ended_are_not_removed(dataward: Dataward, access: Path) -> None:
    file = one_task("echo 1 > o")
    dataward("submit", file, "--wait", "--name", "over", "--access", access)

    said = dataward("cancel", "over", "t", "--access", access)

    assert said.code == ExitCode.BAD_INPUT
    assert "over is complete already; no task was removed" in said.err


def test_a_run_that_nobody_knows_is_not_said_to_be_removed(
    dataward: Dataward, access: Path
) -> None:
    said = dataward("clean", "never-was", "--access", access)

    assert "never-was: no run is called that" in said.out


def test_cleaning_a_cluster_is_told_as_json(dataward: Dataward, access: Path) -> None:
    dataward("submit", one_task("echo 1 > o"), "--wait", "--name", "mine", "--access", access)

    said = dataward("clean", "mine", "never-was", "--json", "--access", access)

    told = [{"run": "mine", "was_known": True}, {"run": "never-was", "was_known": False}]
    assert json.loads(said.out) == {"runs": told}


def test_an_access_file_of_another_cluster_is_called_that(
    dataward: Dataward, cluster: LaptopCluster
) -> None:
    dataward("cluster", "init", "other")
    contact = (cluster.path / "contacts" / "n1").read_text().strip()

    said = dataward("status", "--access", "other/read.access", "--contact", contact)

    assert said.code == ExitCode.BAD_INPUT
    assert f"no node answers ({contact}: it is not a node of 'other')" in said.err


def test_who_watches_waits_for_a_store_that_is_gone_for_a_while(
    dataward: Dataward, tmp_path: Path
) -> None:
    os.mkfifo("gate")
    file = one_task(f"cat {tmp_path}/gate > o")
    with laptop_cluster(tmp_path / "lab", 1) as up:
        there = ["--access", up.submit_access]
        dataward("submit", file, "--name", "patient", *there)
        with open("gate", "wb"):  # the task has begun
            process = started("watch", "patient", *there)
            assert process.stderr is not None
            assert "1 running" in process.stderr.readline()
            up.laptop.stop_store()
            meanwhile = dataward("status", *there)
            waits = process.stderr.readline()
            up.laptop.start_store(1, 0)
        out, _ = process.communicate(timeout=60)

    assert "no node can answer now: the store at 127.0.0.1" in meanwhile.err
    assert waits.startswith("waiting: no node can answer now: the store at ")
    assert process.returncode == ExitCode.OK
    assert out.startswith("patient: complete in ")


def test_who_begins_to_watch_while_the_store_is_gone_waits_as_well(
    dataward: Dataward, tmp_path: Path
) -> None:
    file = one_task("echo done > o")
    with laptop_cluster(tmp_path / "lab", 1) as up:
        there = ["--access", up.submit_access]
        dataward("submit", file, "--name", "patient", *there)
        up.laptop.stop_store()
        process = started("watch", "patient", *there)
        assert process.stderr is not None
        waits = process.stderr.readline()
        up.laptop.start_store(1, 0)
        out, _ = process.communicate(timeout=60)

    assert waits.startswith("waiting: no node can answer now: the store at ")
    assert process.returncode == ExitCode.OK
    assert out.startswith("patient: complete in ")


def test_settings_of_a_cluster_are_listed_with_those_of_its_runners(
    dataward: Dataward, access: Path
) -> None:
    said = dataward("submit", one_task("true"), "--set", "x=1", "--access", access)

    assert said.code == ExitCode.USAGE
    assert "no setting is called 'x'; there are time_limit_seconds=0, " in said.err
    assert " log_bytes_max=268435456, " in said.err
    assert " claim_max=" in said.err


def test_what_was_known_already_is_told_of_a_run_that_failed_as_well(
    dataward: Dataward, access: Path
) -> None:
    wf = WorkflowBuilder("half")
    wf.command("echo 1 > {outputs}", id="known", outputs=["a"])
    wf.command("false", id="fails", outputs=["b"])
    write_workflow(wf.build(), "half.json")
    there = ["--access", access]
    dataward("submit", "half.json", "--name", "half-first", "--wait", *there)
    dataward("submit", "half.json", "--name", "half-second", "--wait", *there)

    said = dataward("status", "half-second", *there)
    told = json.loads(dataward("status", "half-second", "--json", *there).out)

    assert ", 0 of 2 tasks complete, 1 known already, 1 failed\n" in said.out
    assert told[0]["skipped"] == 1


def test_who_fetches_at_a_terminal_sees_that_something_goes_on(
    dataward: Dataward, access: Path
) -> None:
    there = ["--access", access]
    dataward("submit", one_task("echo 1 > o"), "--name", "seen", "--wait", *there)
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    words = [sys.executable, "-m", "dataward.cli.main", "fetch", "seen", "-o", "got", *there]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)  # else a reader of nothing would wait for ever
    said = os.read(master, 65536)
    os.close(master)

    assert done.returncode == ExitCode.OK
    assert b"fetching the results of seen" in said


def test_a_name_that_a_run_of_the_same_workflow_has_is_taken(
    dataward: Dataward, access: Path
) -> None:
    words = ["submit", one_task("echo 1 > o"), "--name", "nightly", "--fresh", "--access", access]
    first = dataward(*words)

    again = dataward(*words)

    assert first.code == ExitCode.OK
    assert again.code == ExitCode.BAD_INPUT
    assert "there is a run called nightly already; give another name" in again.err
