"""Unusual names, sizes and kinds of files: they are fine, or refused before anything runs."""

import json
from pathlib import Path

import pytest

from dataward import WorkflowBuilder, read_workflow, write_workflow
from dataward.errors import BadNameError
from runs.real_runs import OUTPUTS, RUN_DIRECTORY, hashes

NAMES = ["a b", "naïve–日本 🎈", "-n", "--", "deep/er/down", "tab\\t", "$HOME", "*", "'", "x" * 255]


def test_files_may_have_any_name(run):
    wf = WorkflowBuilder("names")
    for number, name in enumerate(NAMES):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"{number}")
        made, final, listed = f"made/{name}", f"final/{name}", f"{name}2"[-255:]
        wf.command(["cp", "--", name, made], inputs=[name], outputs=[made], id=f"one {number}")
        wf.command("cat < {inputs} > {outputs}", inputs=[made], outputs=[final], id=f"two {number}")
        words = ["cp", "--", "{inputs}", "{outputs}"]
        wf.command(words, inputs=[made], outputs=[listed], id=f"three {number}")

    end = run(wf, "--keep", "all")

    assert end.code == 0, end.reasons
    for number, name in enumerate(NAMES):
        for path in (f"made/{name}", f"final/{name}", f"{name}2"[-255:]):
            assert (OUTPUTS / path).read_text() == f"{number}"


@pytest.mark.parametrize("name", ["new\nline", "bell\a", "../up", "/abs", "a//b", "./a", "~/a"])
def test_file_names_that_cannot_be_are_refused_before_anything_runs(name, run, tmp_path):
    document = json.dumps(
        {
            "name": "odd",
            "schemaVersion": "1.5",
            "workflow": {
                "specification": {
                    "tasks": [
                        {"id": "t", "name": "t", "parents": [], "children": [],
                         "inputFiles": [], "outputFiles": [name]}
                    ],
                    "files": [{"id": name, "sizeInBytes": 1}],
                },
                "execution": {
                    "makespanInSeconds": 1, "executedAt": "2024-01-01T00:00:00Z",
                    "tasks": [
                        {"id": "t", "runtimeInSeconds": 1,
                         "command": {"program": "touch", "arguments": ["ran"]}}
                    ],
                },
            },
        }
    )  # fmt: skip
    Path("odd.json").write_text(document)

    end = run(Path("odd.json"), text=True)

    assert end.code == 3
    assert repr(name) in end.err
    assert "Traceback" not in end.err
    assert end.err.count("\n") <= 3


IDS = ["a/b/c", "..", "../../up", ".", "x" * 300, "né 日本 " * 40, "%2e", "a\\b", "-", " "]


def test_tasks_may_have_any_id(run):
    wf = WorkflowBuilder("ids")
    for number, task in enumerate(IDS):
        wf.command(f"echo said {number}; echo x > {{outputs}}", outputs=[f"o{number}"], id=task)
        wf.command(f"echo loudly {number} >&2; exit 1", id=f"{task}!")

    end = run(wf)

    assert end.reasons == {f"{task}!": "it ended with exit code 1" for task in IDS}
    said = {failure["task"]: failure["stderr"] for failure in end.facts["failures"]}
    assert said == {f"{task}!": [f"loudly {number}"] for number, task in enumerate(IDS)}
    assert hashes(OUTPUTS).keys() == {f"o{number}" for number in range(len(IDS))}
    logs = [path for path in (RUN_DIRECTORY / "1" / "logs").iterdir() if path.is_file()]
    assert sorted(path.read_text() for path in logs) == sorted(
        f"{word} {number}\n" for word in ("said", "loudly") for number in range(len(IDS))
    )


@pytest.mark.parametrize("task", ["new\nline", "bell\a", "es\x1bcape", "", "x" * 5000])
def test_ids_that_would_draw_on_a_terminal_are_refused(task):
    with pytest.raises(BadNameError):
        WorkflowBuilder("odd").command("true", id="x", after=[task])


# --- outputs ---------------------------------------------------------------------------------


def test_a_command_may_have_a_thousand_words(run):
    wf = WorkflowBuilder("words")
    words = [f"w{i}" for i in range(1000)]
    wf.command(["sh", "-c", "echo $# $* > o", "sh", *words], outputs=["o"], id="long")

    end = run(wf)

    assert end.code == 0
    assert (OUTPUTS / "o").read_text() == f"1000 {' '.join(words)}\n"


def test_a_link_to_a_file_in_the_tasks_own_directory_is_as_good_as_the_file(run):
    wf = WorkflowBuilder("link")
    wf.command("echo x > real; ln -s real o", outputs=["o"], id="one")
    wf.command("mkdir d; echo y > d/real; ln -s d e; ln -s e/real p", outputs=["p"], id="two")

    end = run(wf)

    assert end.code == 0
    assert [(OUTPUTS / name).read_text() for name in "op"] == ["x\n", "y\n"]
    assert not (OUTPUTS / "o").is_symlink()


def test_outputs_of_every_size_arrive_whole(run):
    wf = WorkflowBuilder("sizes")
    sizes = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_000, (16 << 20) + 7]
    for size in sizes:
        wf.command(f"yes | head -c {size} > {{outputs}}", outputs=[f"made{size}"], id=f"m{size}")
        wf.command(
            "cat < {inputs} > {outputs}", inputs=[f"made{size}"], outputs=[f"{size}"], id=f"c{size}"
        )

    end = run(wf, "--nodes", "2", "--keep", "all")

    assert end.code == 0
    whole = b"y\n" * (9 << 20)
    for size in sizes:
        for name in (f"made{size}", f"{size}"):
            assert (OUTPUTS / name).read_bytes() == whole[:size]


@pytest.mark.parametrize("size", [0, 3, 3 << 20])
def test_files_of_equal_content_are_files_of_their_own(size, run):
    wf = WorkflowBuilder("twins")
    line = f"yes | head -c {size} > a; cp a b; ln a c"
    wf.command(line, outputs=["a", "b", "c"], id="one")
    wf.command(f"yes | head -c {size} > d", outputs=["d"], id="two")
    wf.command("cat a > e", inputs=["a"], outputs=["e"], id="reader of one")

    run(wf, "--keep", "all")
    (OUTPUTS / "a").write_text("mine")

    assert {(OUTPUTS / name).stat().st_size for name in "bcde"} == {size}
    assert len({(OUTPUTS / name).stat().st_ino for name in "abcde"}) == 5


@pytest.mark.parametrize("size", [5, 3 << 20])
@pytest.mark.parametrize("line", ["ln i o", "ln -s i o", "mv i o", "cp -l i o"])
def test_an_input_may_be_handed_on_as_an_output(line, size, run):
    wf = WorkflowBuilder("handed on")
    wf.command(f"yes | head -c {size} > i", outputs=["i"], id="make")
    wf.command(line, inputs=["i"], outputs=["o"], id="hand on")
    wf.command("cat i o > both", inputs=["i", "o"], outputs=["both"], id="read both")
    wf.command("cat i > other", inputs=["i"], outputs=["other"], id="read one", after=["hand on"])

    end = run(wf, "--keep", "all")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "both").stat().st_size == 2 * size
    assert {(OUTPUTS / name).stat().st_size for name in ("i", "o", "other")} == {size}


def test_the_users_own_input_is_never_taken_for_an_output(run):
    """A hard link to it, made read-only and handed to others, would be the user's file still."""
    Path("mine").write_text("mine\n")
    Path("mine").chmod(0o640)
    wf = WorkflowBuilder("mine")
    wf.command("ln -L mine made", inputs=["mine"], outputs=["made"], id="linker")
    wf.command("cat made > o", inputs=["made"], outputs=["o"], id="reader")

    end = run(wf, "--keep", "all")
    (OUTPUTS / "made").write_text("another")

    assert end.code == 0
    assert Path("mine").stat().st_mode & 0o777 == 0o640
    assert Path("mine").stat().st_nlink == 1
    assert Path("mine").read_text() == "mine\n"


def test_a_program_that_a_task_makes_can_be_run_by_others(run):
    wf = WorkflowBuilder("compiled")
    script = "#!/bin/sh\\necho built"
    wf.command(f"printf '{script}' > plain", outputs=["plain"], id="alike, but no program")
    wf.command(
        f"printf '{script}' > program; chmod +x program",
        outputs=["program"], inputs=["plain"], id="compile",
    )  # fmt: skip
    wf.command("./program > o", inputs=["program"], outputs=["o"], id="use")

    end = run(wf, "--keep", "all")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "o").read_text() == "built\n"
    assert (OUTPUTS / "program").stat().st_mode & 0o777 == 0o755


def test_empty_inputs_are_inputs(run):
    Path("nothing").touch()
    wf = WorkflowBuilder("empty")
    wf.command("cat nothing > o; echo end >> o", inputs=["nothing"], outputs=["o"], id="reader")

    end = run(wf)

    assert end.code == 0
    assert (OUTPUTS / "o").read_text() == "end\n"


def test_a_task_without_files_runs_once(run, tmp_path):
    wf = WorkflowBuilder("alone")
    wf.command(f"echo ran >> {tmp_path}/log", id="alone")

    first, second = run(wf), run(wf)

    assert (first.counts, second.counts) == ((1, 0, 0, 0), (0, 1, 0, 0))
    assert Path("log").read_text() == "ran\n"


@pytest.mark.parametrize("mode", ["000", "555"])
def test_what_a_task_leaves_behind_is_not_there_for_the_next(run, mode):
    wf = WorkflowBuilder("tidy")
    wf.command(
        "mkdir -p d/e/f; touch d/1 d/e/2 d/e/f/3 .hidden g; ln -s d h; "
        f"chmod {mode} d/e/f; chmod {mode} d/e; chmod {mode} d; chmod {mode} .",
        id="messy",
    )
    wf.command("ls -A > {outputs}", outputs=["seen"], after=["messy"], id="next")

    run(wf, "--slots", "1")

    assert (OUTPUTS / "seen").read_text() == "seen\n"


def test_files_that_are_alike_come_and_go_each_by_itself(run):
    """Empty files are all alike: one goes, as nobody needs it, just when another comes."""
    wf = WorkflowBuilder("markers")
    for i in range(60):
        before = [f"o{i - 2}"] if i > 1 else []
        wf.command(["touch", f"e{i}"], inputs=before, outputs=[f"e{i}"], id=f"mark {i}")
        wf.command(f"echo {i} > o{i}", inputs=[f"e{i}"], outputs=[f"o{i}"], id=f"use {i}")

    end = run(wf)

    assert end.code == 0, end.reasons
    assert hashes(OUTPUTS).keys() == {"o58", "o59"}


def test_a_file_that_is_declared_but_that_nobody_reads_or_writes_need_not_be_there(run):
    wf = WorkflowBuilder("unused")
    wf.file("unused", 5)
    wf.command("echo made > out", outputs=["out"], id="maker")
    wf.command("cat out > last", inputs=["out"], outputs=["last"], id="reader")
    path = Path("w.json")
    write_workflow(wf.build(), path)
    assert "unused" in read_workflow(path).file_ids

    first = run(path)
    again = run(path)

    assert first.counts == (2, 0, 0, 0)
    assert again.counts == (0, 2, 0, 0)
    assert {path.name for path in OUTPUTS.iterdir()} == {"last"}
