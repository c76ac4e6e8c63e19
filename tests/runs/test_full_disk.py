"""Runs on a disk that is really full: a small one, mounted where nobody else sees it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS, RUN_DIRECTORY, Ended, arguments_for, ended

_MOUNT = "mkdir -p w.run && mount -t tmpfs -o size=3m none w.run"
BALLAST = "w.run/ballast"


def _namespace() -> list[str]:
    """The words that run a command with mounts of its own, as a plain user or as root; or none."""
    for words in (["unshare", "-rm"], ["unshare", "-m"]):
        line = [*words, "sh", "-c", "mount -t tmpfs none /mnt"]
        try:
            if subprocess.run(line, capture_output=True).returncode == 0:
                return words
        except FileNotFoundError:
            break
    return []


NAMESPACE = _namespace()
pytestmark = pytest.mark.skipif(not NAMESPACE, reason="no disk can be mounted here")


def run_on_a_small_disk(workflow: WorkflowBuilder, *options: str, then: str = "true") -> Ended:
    """Its files are there only while it runs: ``then`` is done before the disk is gone."""
    words = [sys.executable, "-m", "dataward.cli.main"]
    command = shlex.join([*words, *arguments_for(workflow, options)])
    again = shlex.join([*words, *arguments_for(workflow, ["--resume"])])
    line = f"{_MOUNT} || exit 99; {command}; code=$?; {then.replace('AGAIN', again)}; exit $code"
    done = subprocess.run([*NAMESPACE, "sh", "-c", line], capture_output=True, text=True)
    return ended(done.returncode, done.stdout, done.stderr, is_json=True)


def test_a_task_that_fills_the_disk_fails_and_the_rest_goes_on():
    wf = WorkflowBuilder("full")
    wf.command("echo seed > a", outputs=["a"], id="first")
    wf.command("head -c 9000000 /dev/zero > big", inputs=["a"], outputs=["big"], id="filler")
    wf.command("cat big > c", inputs=["big"], outputs=["c"], id="child")
    # At the same time as the filler, so it may find no room at first.
    insist = "until cat a > d; do :; done 2> /dev/null"
    wf.command(insist, inputs=["a"], outputs=["d"], id="other")

    end = run_on_a_small_disk(wf, then=f"cp -r {OUTPUTS} saved")

    assert end.code == 1
    assert end.reasons == {
        "filler": "it ended with exit code 1; the disk of its directory is full (0 B left)"
    }
    assert end.counts == (2, 0, 1, 1)
    assert Path("saved/d").read_text() == "seed\n"


def fill_the_disk() -> None:
    with open("big", "wb") as file:
        file.write(b"1" * 9_000_000)


def test_every_task_that_fails_of_a_full_disk_names_it():
    wf = WorkflowBuilder("full")
    says_so = "echo 'cannot write: No space left on device' >&2"
    makes_room = f"head -c 9000000 /dev/zero > big || {{ : > big; {says_so}; exit 7; }}"
    wf.command(makes_room, outputs=["big"], id="made room")
    wf.command("head -c 9 /dev/zero > /dev/full", id="elsewhere")
    wf.command("head -c 9000000 /dev/zero > huge; kill -9 $$", id="killed")
    wf.call(fill_the_disk, id="call")
    wf.command("exit 7", id="not of that")

    end = run_on_a_small_disk(wf, "--slots", "1")

    full = "the disk of its directory is full"
    assert end.reasons == {
        "made room": "it ended with exit code 7; it found a disk full",
        "elsewhere": "it ended with exit code 1; it found a disk full",
        "killed": f"it was killed by signal 9 (SIGKILL); {full} (0 B left)",
        "call": full,
        "not of that": "it ended with exit code 7",
    }


def a_workflow_that_leaves_no_room() -> WorkflowBuilder:
    """A task fills the disk behind the run's back; those after it need room in its journal."""
    ballast = Path.cwd() / BALLAST
    wf = WorkflowBuilder("no room")
    fill = f"echo x > x; [ -e {ballast}.off ] || head -c 9000000 /dev/zero > {ballast}; exit 0"
    wf.command(fill, outputs=["x"], id="filler")
    for i in range(80):
        wf.command("true", inputs=["x"], id=f"small {i}")
    return wf


def test_a_run_that_cannot_write_down_what_happens_says_so_and_can_go_on_later():
    resume = f"rm {BALLAST}; touch {BALLAST}.off; AGAIN > resumed.json; cp -r {RUN_DIRECTORY} kept"

    end = run_on_a_small_disk(a_workflow_that_leaves_no_room(), then=resume)

    assert end.code == 4
    assert "No space left on device" in end.err
    assert "Traceback" not in end.err
    assert end.err.count("\n") == 1
    assert end.out == ""
    resumed = ended(0, Path("resumed.json").read_text(), "", is_json=True)
    assert resumed.facts["state"] == "complete"
    assert resumed.facts["run"] == "w.run/1"
    assert resumed.facts["complete"] + resumed.facts["skipped"] == 81
