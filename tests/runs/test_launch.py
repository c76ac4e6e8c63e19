"""How a command is launched: its streams are files of the workflow, its environment is its own."""

import json
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS, RUN_DIRECTORY


def test_a_command_reads_and_writes_files_by_its_streams(run):
    Path("in").write_text("b\na\n")
    wf = WorkflowBuilder("streams")
    wf.command(["sort"], stdin="in", stdout="made/sorted", id="sort")
    wf.command("cat; echo odd >&2", stdin="made/sorted", stdout="out", stderr="err", id="cat")

    end = run(wf)

    assert end.counts == (2, 0, 0, 0), end.reasons
    assert (OUTPUTS / "out").read_text() == "a\nb\n"
    assert (OUTPUTS / "err").read_text() == "odd\n"
    assert not list((RUN_DIRECTORY / "1" / "logs").iterdir())


def test_both_streams_may_go_to_one_file(run):
    wf = WorkflowBuilder("one file")
    wf.command("echo a; echo b >&2; echo c", stdout="all", stderr="all")

    run(wf)

    assert (OUTPUTS / "all").read_text() == "a\nb\nc\n"


def test_only_the_redirected_stream_is_missing_from_the_logs(run):
    wf = WorkflowBuilder("half")
    wf.command("echo a; echo b >&2", stdout="out", id="t")

    run(wf)

    assert (OUTPUTS / "out").read_text() == "a\n"
    assert [path.read_text() for path in (RUN_DIRECTORY / "1" / "logs").iterdir()] == ["b\n"]


def test_what_a_failed_command_wrote_to_its_streams_is_in_its_logs(run):
    wf = WorkflowBuilder("fails")
    wf.command("echo a; echo so bad >&2; exit 3", stdout="out", stderr="err", id="t")
    wf.command("echo both; echo of them >&2; exit 3", stdout="all", stderr="all", id="u")

    end = run(wf)

    said = {failure["task"]: failure["stderr"] for failure in end.facts["failures"]}
    assert said == {"t": ["so bad"], "u": ["both", "of them"]}
    assert not OUTPUTS.exists()


def test_an_output_by_stdout_may_be_longer_than_a_log(run):
    wf = WorkflowBuilder("long")
    wf.command("head -c 5000 /dev/zero", stdout="zeros")

    end = run(wf, "--set", "log_bytes_max=1000")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "zeros").stat().st_size == 5000


def test_a_command_has_its_own_variables_beside_those_of_the_caller(run, monkeypatch):
    monkeypatch.setenv("OUTER", "kept")
    wf = WorkflowBuilder("environment")
    script = 'echo "$OUTER $ONE $OMP_NUM_THREADS" > {outputs}'
    wf.command(script, outputs=["o"], env={"ONE": "a  b=c", "OMP_NUM_THREADS": "7"}, id="with")
    wf.command('echo "$ONE" > {outputs}', outputs=["p"], id="without")

    end = run(wf)

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "o").read_text() == "kept a  b=c 7\n"
    assert (OUTPUTS / "p").read_text() == "\n"


def test_a_program_is_looked_for_on_the_path_of_its_own_environment(run):
    Path("bin").mkdir()
    Path("bin/mine").write_text("#!/bin/sh\necho mine\n")
    Path("bin/mine").chmod(0o755)
    path = f"{Path('bin').absolute()}:/usr/bin:/bin"
    wf = WorkflowBuilder("path")
    wf.command(["mine"], stdout="o", env={"PATH": path})
    wf.command(["mine"], stdout="p", id="elsewhere")

    end = run(wf)

    assert (OUTPUTS / "o").read_text() == "mine\n"
    assert end.reasons == {"elsewhere": "there is no command 'mine' on the PATH"}


@pytest.mark.parametrize(
    "changed",
    [{"env": {"A": "2"}}, {"env": {}}, {"stdin": "other"}, {"stderr": "err"}, {"stdout": "out"}],
    ids=str,
)
def test_a_task_runs_again_if_only_its_streams_or_variables_have_changed(run, changed):
    Path("in").write_text("x")
    Path("other").write_text("x")

    def workflow(**changes) -> WorkflowBuilder:
        wf = WorkflowBuilder("changes")
        launch = {"stdin": "in", "stdout": "o", "env": {"A": "1"}, **changes}
        wf.command("cat; echo $A", inputs=["in", "other"], id="t", **launch)
        wf.command("true", stdout="q", env={"A": "1"}, id="u")
        return wf

    run(workflow())
    same = run(workflow())
    end = run(workflow(**changed))

    assert same.counts == (0, 2, 0, 0)
    assert end.counts == (1, 1, 0, 0)


def test_an_interrupted_run_of_launched_commands_can_be_resumed(run):
    wf = WorkflowBuilder("resumed")
    wf.command("cat nothing", stdout="o", env={"A": "1"}, id="t")

    run(wf)
    end = run(wf, "--resume")

    assert end.reasons == {"t": "it ended with exit code 1"}


DAX = """<adag name="w">
<job id="a" name="sh">
  <argument>-c 'sort; echo $WORD; echo odd >&amp;2'</argument>
  <profile namespace="env" key="WORD">of mine</profile>
  <stdin name="in" link="input"/><stdout name="out" link="output"/>
  <stderr name="err" link="output"/>
</job></adag>"""

PEGASUS = """
jobs:
- type: job
  name: sh
  id: a
  stdin: in
  stdout: out
  stderr: err
  arguments: ["-c 'sort; echo $WORD; echo odd >&2'"]
  uses: []
  profiles: {env: {WORD: of mine}}
"""


@pytest.mark.parametrize(("name", "text"), [("w.xml", DAX), ("w.yml", PEGASUS)])
def test_streams_and_variables_of_a_pegasus_workflow_are_used(run, name, text):
    Path("in").write_text("b\na\n")
    Path(name).write_text(text)

    end = run(Path(name))

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "out").read_text() == "a\nb\nof mine\n"
    assert (OUTPUTS / "err").read_text() == "odd\n"


def test_a_variable_that_cannot_be_is_refused_before_anything_runs(run):
    wf = WorkflowBuilder("bad")
    wf.command("touch ran", outputs=["ran"], env={"A": "1"}, id="t")
    run(wf)
    text = Path("w.json").read_text()
    Path("w.json").write_text(
        text.replace(json.dumps({"A": "1"}, separators=(",", ":")), '{"":"1"}')
    )

    end = run(Path("w.json"), text=True)

    assert end.code == 3
    assert "''" in end.err
    assert "$.workflow" in end.err


def test_parameters_are_filled_in_in_streams_and_variables_too(run):
    Path("in-a").write_text("from a\n")
    Path("out of the way").write_text("b\n")
    wf = WorkflowBuilder("parameters")
    wf.file("other-{x}", path="out of the {y}")
    command = "cat - other-{x}; echo $V"
    wf.command(command, inputs=["other-{x}"], stdin="in-{x}", stdout="out-{x}", env={"V": "{y}"})

    end = run(wf, "--set-param", "x=a", "--set-param", "y=way")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "out-a").read_text() == "from a\nb\nway\n"


def test_a_part_of_a_workflow_keeps_streams_variables_and_places(run):
    Path("elsewhere").write_text("found\n")
    wf = WorkflowBuilder("part")
    wf.file("in", path=str(Path("elsewhere").absolute()))
    wf.command("cat; echo $V", stdin="in", stdout="o", env={"V": "1"}, id="t")
    wf.command("echo x", stdout="p", id="u")

    end = run(wf, "o")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "o").read_text() == "found\n1\n"
    assert not (OUTPUTS / "p").exists()
