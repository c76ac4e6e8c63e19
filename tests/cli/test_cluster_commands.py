"""The commands of a cluster, as somebody types them: what they say when something is wrong."""

from pathlib import Path

import pytest

from dataward.cli.exit_codes import ExitCode
from dataward.cluster.founding import ClusterDirectory


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDirectory:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATAWARD_ACCESS", raising=False)
    directory = ClusterDirectory(Path("lab"))
    directory.found("lab")
    return directory


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cluster"], "needs another word: init, store, up, down"),
        (["cluster", "fly"], "needs another word"),
        (["status"], "no access file; give --access FILE"),
        (["status", "--access", "nowhere"], "cannot be read"),
        (["status", "--access", "/dev/null"], "is no access file"),
        (["status", "--access", "lab/read.access"], "no address of a node is known"),
        (["status", "--access", "lab/node.access"], "is a node's"),
        (["node", "--access", "lab/read.access"], "for 'read': a node needs node.access"),
        (["node", "--access", "lab/node.access"], "names no store"),
        (["node", "--access", "lab/node.access", "--name", "a/b"], "cannot be called 'a/b'"),
        (["node", "--access", "lab/node.access", "--name", "origin"], "cannot be called"),
        (["node", "--access", "lab/node.access", "--listen", "7000"], "it takes HOST:PORT"),
        (["node", "--access", "lab/node.access", "--lease", "0.1s"], "at least 0.5s"),
        (["status", "a/b?c", "--access", "lab/read.access"], "no run is called 'a/b?c'"),
        (["watch", "..", "--access", "lab/read.access"], "no run is called '..'"),
        (["fetch", "", "--access", "lab/read.access"], "no run is called ''"),
        (["clean", "a b", "--access", "lab/submit.access"], "no run is called 'a b'"),
        (["cancel", "r", "--access", "lab/read.access"], "one may only look"),
        (["clean", "r", "--access", "lab/read.access"], "one may only look"),
        (["drain", "n1", "--access", "lab/read.access"], "one may only look"),
        (["submit", "w.json", "--access", "lab/read.access"], "one may only look"),
        (["run", "w.json", "--access", "lab/read.access"], "one may only look"),
        (
            ["submit", "w.json", "--name", "../x", "--access", "lab/submit.access"],
            "a run cannot be called '../x'",
        ),
        (
            ["submit", "w.json", "--time-limit", "0", "--access", "lab/submit.access"],
            "--time-limit 0 would leave tasks no time",
        ),
        (["cluster", "up", "new", "--replicas", "1"], "3 with 0 or 1 replicas each"),
        (["cluster", "up", "new", "--lease", "soon"], "'soon' is not a duration"),
        (["cluster", "init", "lab"], "holds a cluster already"),
        (["cluster", "down", "empty"], "holds no cluster"),
        (["clean", "--access", "lab/submit.access"], "name the runs to clean"),
        (["why", "t", "--access", "lab/read.access"], "needs a run's name"),
        (["run", "w.json", "--fresh"], "--fresh is for clusters"),
        (["run", "w.json", "--contact", "n1:7000"], "--contact is for clusters"),
        (["why", "t", "--contact", "n1:7000"], "--contact is for clusters"),
        (["clean", "--contact", "n1:7000"], "--contact is for clusters"),
        (
            ["logs", "r", "t", "--access", "lab/read.access", "--contact", "127.0.0.1:1"],
            "no node answers (127.0.0.1:1",
        ),
        (["status", "--access", "lab/read.access", "--contact", "n1"], "it takes HOST:PORT"),
        (["nodes", "--access", "lab/read.access", "--contact", "n1:70000"], "it takes HOST:PORT"),
        (["cluster", "init", "new", "--contact", "n1"], "--contact cannot be 'n1'; it takes"),
        (["node", "--access", "lab/node.access", "--address", "n1"], "--address cannot be 'n1'"),
        (["run", "w.json", "--access", "lab/submit.access", "--nodes", "3"], "--nodes is for runs"),
        (["run", "w.json", "--access", "x", "--strategy", "best"], "name one for a cluster"),
        (
            ["status", "--access", "lab/read.access", "--contact", "127.0.0.1:1"],
            "no node answers (127.0.0.1:1",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: list[str], said: str, lab: ClusterDirectory, dataward
) -> None:
    done = dataward(*words)

    assert done.code in (1, 2, 3)
    assert said in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("wrong", [("--replicas", "1"), ("--shards", "2"), ("--lease", "0.1s")])
def test_a_cluster_that_cannot_be_as_asked_for_is_not_founded(
    lab: ClusterDirectory, dataward, wrong: tuple[str, str]
) -> None:
    said = dataward("cluster", "up", "new", *wrong)

    assert said.code == ExitCode.USAGE
    assert not Path("new").exists()


def test_founding_says_where_the_files_are(lab: ClusterDirectory, dataward) -> None:
    done = dataward("cluster", "init", "other", "--store", "valkey://:secret@db.example.org")

    assert done.code == 0
    assert "other/submit.access" in done.out
    assert "secret" not in done.out + done.err
    assert "warning" in done.err  # no TLS beyond this machine
