"""A task that writes to its input spoils it for others; they get it as it was made."""

from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS

WROTE = "it wrote to its input 'x', or another task that reads it did"
SPOIL = "chmod u+w x; echo spoiled >> x"


def a_spoiler_among_readers(tmp_path) -> WorkflowBuilder:
    wf = WorkflowBuilder("spoiled")
    wf.command(f"echo made >> {tmp_path}/log; echo right > x", outputs=["x"], id="maker")
    flag = tmp_path / "flag"
    wf.command(f"{SPOIL}; touch {flag}; exit 0", inputs=["x"], outputs=["s"], id="spoiler")
    wf.command(f"until [ -e {flag} ]; do :; done; touch go", outputs=["go"], id="gate")
    for i in range(6):
        wf.command(f"cat x > r{i}", inputs=["x", "go"], outputs=[f"r{i}"], id=f"reader {i}")
    return wf


def test_a_spoiled_file_is_made_again_for_its_other_readers(run, tmp_path):
    """They are staged beside the one that spoils it, or come later; none may read what it left."""
    end = run(a_spoiler_among_readers(tmp_path))

    assert end.code == 1
    assert end.reasons == {"spoiler": WROTE}
    assert {(OUTPUTS / f"r{i}").read_text() for i in range(6)} == {"right\n"}
    assert Path("log").read_text() == "made\n" * 2


def test_on_several_nodes_nobody_commits_what_was_read_from_a_spoiled_file(run, tmp_path):
    """Replicas may make it more often, and one that reads just then may be blamed too."""
    end = run(a_spoiler_among_readers(tmp_path), "--nodes", "3")

    assert end.code == 1
    assert end.reasons["spoiler"] == WROTE
    assert {path.read_text() for path in OUTPUTS.glob("r*")} <= {"right\n"}
    assert set(Path("log").read_text().split()) == {"made"}


def test_a_task_that_makes_its_input_unreadable_harms_no_other_reader(run):
    wf = WorkflowBuilder("closed")
    wf.command("echo right > x", outputs=["x"], id="maker")
    wf.command("chmod 000 x", inputs=["x"], id="closer")
    wf.command("cat x > r", inputs=["x"], outputs=["r"], after=["closer"], id="reader")

    end = run(wf, "--keep", "all")

    assert end.code == 0, end.reasons
    assert [(OUTPUTS / name).read_text() for name in "xr"] == ["right\n"] * 2


def test_readers_that_wait_for_a_core_do_not_get_a_spoiled_file(run, tmp_path):
    wf = WorkflowBuilder("spoiled")
    wf.command("echo right > x", outputs=["x"], id="maker")
    wf.command(SPOIL, inputs=["x"], outputs=["s"], id="spoiler", runtime_seconds=100)
    for i in range(6):
        wf.command(f"cat x > r{i}", inputs=["x"], outputs=[f"r{i}"], id=f"reader {i}")

    end = run(wf, "--slots", "1", "--retries", "1")

    assert end.reasons == {"spoiler": WROTE}
    assert end.facts["failures"][0]["attempts"] == 2
    assert {(OUTPUTS / f"r{i}").read_text() for i in range(6)} == {"right\n"}


def test_a_file_of_an_earlier_run_that_is_spoiled_is_made_again_by_the_next(run, tmp_path):
    def workflow(line: str) -> WorkflowBuilder:
        wf = WorkflowBuilder("spoiled")
        wf.command("echo right > x", outputs=["x"], id="maker")
        wf.command(line, inputs=["x"], outputs=["s"], id="spoiler", runtime_seconds=100)
        read = f"test -e {tmp_path}/ready && cat x > r"
        wf.command(read, inputs=["x"], outputs=["r"], id="reader", runtime_seconds=1)
        return wf

    run(workflow("exit 1"))
    Path("ready").touch()

    second = run(workflow(SPOIL), "--slots", "1")
    third = run(workflow("cat x > s"))

    assert second.counts == (0, 1, 2, 0)
    assert second.reasons["spoiler"] == WROTE
    assert second.reasons["reader"] == "its input 'x' is gone; the next run makes it again"
    assert third.code == 0
    assert {(OUTPUTS / name).read_text() for name in "rs"} == {"right\n"}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            "echo more >> x",
            "its input 'x', which no task makes, was changed while the task ran, by the task "
            "or by somebody else",
        ),
        ("rm $(readlink x)", "its input 'x' is not there any more"),
    ],
)
def test_a_task_that_changes_a_file_of_the_users_fails_and_says_so(run, tmp_path, command, reason):
    (tmp_path / "x").write_text("mine\n")
    wf = WorkflowBuilder("mine")
    wf.file("x", 5)
    wf.command(f"{command}; touch out", inputs=["x"], outputs=["out"], id="careless")
    wf.command("echo fine > other", outputs=["other"], id="other")

    end = run(wf, "--slots", "1")

    assert end.reasons == {"careless": reason}
    assert (OUTPUTS / "other").exists()
