"""What one person asks of a run: a part of it, some tasks again, other values, or only what if."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.live.fitting import LEAD_SECONDS, OUTCOME_SECONDS
from dataward.model.events import TaskFinished
from dataward.reports.event_file import EventFileReader, EventFileWriter
from dataward.runs.run_directory import RunDirectory
from dataward.runs.workflow_run import gather_outcomes
from file_changes import wait_for_files
from runs.real_runs import (
    OUTPUTS,
    RUN_DIRECTORY,
    arguments_for,
    end_of,
    hashes,
    interrupt,
    outlives_many_looks,
    processes_in,
    started,
)


def two_branches() -> WorkflowBuilder:
    """a -> left -> l, a -> right -> r, and l and r -> last -> z; in is the only input."""
    if not Path("in").exists():
        Path("in").write_text("1\n")
    wf = WorkflowBuilder("branches")
    for id, reads, writes in (
        ("first", "in", "a"),
        ("left", "a", "l"),
        ("right", "a", "r"),
        ("last", "l r", "z"),
    ):
        wf.command(
            f"cat {reads} > {writes}; echo {id} >> {Path.cwd()}/ran",
            inputs=reads.split(), outputs=[writes], id=id, name=f"{id}_1",
        )  # fmt: skip
    return wf


def ran() -> list[str]:
    path = Path("ran")
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(lines)


@pytest.mark.parametrize("target", ["l", "left", "left_1"])
def test_only_what_a_target_needs_is_run(target, run):
    name = "left" if target == "left_1" else target  # the type of left_1

    end = run(two_branches(), name)

    assert ran() == ["first", "left"]
    assert end.counts == (2, 0, 0, 0)
    assert hashes(OUTPUTS).keys() == {"l"}


@pytest.mark.parametrize("targets", [[], ["z"], ["l"]])
def test_until_goes_no_further_on_the_way_to_the_targets(targets, run):
    run(two_branches(), *targets, "--until", "left")

    assert ran() == ["first", "left"]
    assert hashes(OUTPUTS).keys() == {"l"}


def test_until_names_what_is_on_the_way_to_the_targets(run):
    end = run(two_branches(), "l", "--until", "right", text=True)

    assert end.code == 2
    assert "no file, task or type of task is called 'right'" in end.err


def test_a_part_leaves_the_rest_of_the_outputs_alone(run):
    run(two_branches())
    Path("in").write_text("2\n")

    run(two_branches(), "right")

    assert hashes(OUTPUTS).keys() == {"r", "z"}
    assert (OUTPUTS / "r").read_text() == "2\n"
    assert (OUTPUTS / "z").read_text() == "1\n1\n"


def test_a_part_needs_only_its_own_inputs(run):
    wf = two_branches()
    wf.command("cat missing > m", inputs=["missing"], outputs=["m"], id="other")

    assert run(wf, "l").code == 0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rihgt", "no file, task or type of task is called 'rihgt'; did you mean 'right'"),
        ("in", "'in' is an input of the workflow: no task makes it"),
    ],
)
def test_a_target_that_cannot_be_made_is_refused(name, problem, run):
    end = run(two_branches(), name, text=True)

    assert end.code == 2
    assert problem in end.err
    assert not RUN_DIRECTORY.exists()


def test_a_forced_task_runs_again_and_its_readers_only_if_it_writes_something_else(run):
    run(two_branches())
    ran()

    end = run(two_branches(), "--force", "left")

    assert ran() == ["left"]
    assert end.counts == (1, 3, 0, 0)


def test_a_forced_task_whose_input_had_to_be_made_again_runs_once(run):
    run(two_branches(), "--keep", "final")
    ran()

    end = run(two_branches(), "--keep", "final", "--force", "left")

    assert ran() == ["first", "left"]
    assert end.counts == (2, 2, 0, 0)


def two_that_wait() -> WorkflowBuilder:
    """Two tasks that say that they have begun, and wait to be let go, if there is a pipe for it."""
    here = Path.cwd()
    wait = f"test -p {here}/go && {{ : > {here}/began; cat {here}/go; }}"
    wf = WorkflowBuilder("two")
    for id in ("one", "two"):
        wf.command(f"{wait}; echo {id} >> {here}/ran; touch {id}", outputs=[id], id=id)
    return wf


def test_a_forced_run_that_was_interrupted_goes_on_with_what_was_forced_and_has_not_run(run):
    options = ["--force", "one", "--force", "two", "--slots", "1"]
    run(two_that_wait())
    ran()
    for pipe in ("began", "go"):
        os.mkfifo(pipe)

    process = started(arguments_for(two_that_wait(), options, json=False))
    Path("began").read_bytes()  # waits until the first of them writes to it
    interrupt(process)
    Path("go").write_bytes(b"")
    interrupted = end_of(process, is_json=False)
    Path("go").unlink()
    first = ran()
    end = run(two_that_wait(), *options, "--resume")

    assert "two: interrupted" in interrupted.out
    assert "--force one --force two" in interrupted.out
    assert sorted([*first, *ran()]) == ["one", "two"]
    assert end.facts["state"] == "complete"


def test_a_run_whose_events_cannot_be_written_where_asked_has_not_begun(run):
    Path("file").touch()

    end = run(two_branches(), "--events", "file/below", text=True)

    assert (end.code, ran()) == (4, [])
    assert "cannot write file/below" in end.err
    assert not (RUN_DIRECTORY / "1").exists()


def test_events_do_not_replace_the_workflow(run):
    wf = two_branches()

    end = run(wf, "--events", "w.json", text=True)

    assert end.code == 2
    assert "w.json is the workflow itself; name another file to write to" in end.err
    assert run(wf).code == 0


def test_a_run_with_a_task_too_wide_for_its_slots_has_not_begun(run):
    wf = WorkflowBuilder("wide")
    wf.command("true", id="t", cores=3)

    end = run(wf, "--slots", "2", text=True)

    assert end.code == 2
    assert "a task needs 3 cores, but no node has more than 2" in end.err
    assert not RUN_DIRECTORY.exists()


def test_the_settings_that_are_listed_have_the_values_that_a_run_has(run):
    end = run(two_branches(), "--set", "nosuch=1", text=True)

    assert f"lead_seconds={LEAD_SECONDS:g}" in end.err
    assert f"outcome_seconds={OUTCOME_SECONDS:g}" in end.err


def test_a_target_that_looks_like_an_option_is_named_so_that_the_run_can_go_on(run):
    wf = two_that_wait()
    wf.command("cat one > -x", inputs=["one"], outputs=["-x"], id="last")
    for pipe in ("began", "go"):
        os.mkfifo(pipe)

    process = started([*arguments_for(wf, [], json=False), "--", "-x"])
    Path("began").read_bytes()
    interrupt(process)
    Path("go").write_bytes(b"")
    said = end_of(process, is_json=False).out
    Path("go").unlink()

    assert said.endswith("-- -x\n")
    words = shlex.split(said.rpartition("go on with: dataward ")[2])
    assert end_of(started([*words[:-2], "--json", *words[-2:]])).facts["state"] == "complete"


def test_parameters_are_filled_into_commands_and_file_names(run):
    wf = WorkflowBuilder("greeting")
    wf.command("echo {word} {other} > {word}.txt", outputs=["{word}.txt"], id="t")

    run(wf, "--set-param", "word=hello")
    again = run(wf, "--set-param", "word=hello")
    changed = run(wf, "--set-param", "word=bye")

    assert again.counts == (0, 1, 0, 0)
    assert changed.counts == (1, 0, 0, 0)
    assert (OUTPUTS / "bye.txt").read_text() == "bye {other}\n"


@pytest.mark.parametrize("setting", ["nosuch=1", "word", "=x", "a b=1"])
def test_a_parameter_that_is_nowhere_or_no_parameter_is_refused(setting, run):
    wf = WorkflowBuilder("greeting")
    wf.command("echo {word} > o", outputs=["o"], id="t")

    end = run(wf, "--set-param", setting, text=True)

    assert end.code == 2
    assert not RUN_DIRECTORY.exists()


def test_a_dry_run_of_something_new_says_so_and_leaves_nothing(run):
    end = run(two_branches(), "--dry-run", text=True)

    assert end.code == 0
    assert "first would run, because it had not run before" in end.out
    assert "4 tasks would run" in end.out
    assert "too little is known of run times to say when it would end" in end.out
    assert ran() == []
    assert not RUN_DIRECTORY.exists()


def test_a_dry_run_says_what_would_run_and_what_perhaps(run):
    run(two_branches())
    ran()
    Path("in").write_text("2\n")
    os.utime("in", (0, 0))  # old enough for its digest to be worth keeping
    before = everything_in(RUN_DIRECTORY)

    end = run(two_branches(), "--dry-run")

    facts = json.loads(end.out)
    assert facts["due"] == {"first": "its input 'in' has changed"}
    assert facts["perhaps"] == ["left", "right", "last"]
    assert 0 < facts["forecast"]["low_seconds"] < facts["forecast"]["high_seconds"]
    assert ran() == []
    assert everything_in(RUN_DIRECTORY) == before


def everything_in(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and directory below a directory by name, with its mode and content."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }


def one_then_another_that_waits() -> WorkflowBuilder:
    wf = WorkflowBuilder("two")
    wf.command("echo 1 > one", outputs=["one"], id="first")
    wait = f"echo > {Path.cwd()}/began; cat {Path.cwd()}/go"
    wf.command(f"cat one > two; {wait}", inputs=["one"], outputs=["two"], id="second")
    return wf


def test_a_dry_run_after_one_that_was_killed_leaves_everything_as_it_is(run):
    for pipe in ("began", "go"):
        os.mkfifo(pipe)
    process = started(arguments_for(one_then_another_that_waits(), []))
    Path("began").read_bytes()  # waits until the second task writes to it
    process.kill()
    process.communicate()
    assert not any(map(outlives_many_looks, processes_in(RUN_DIRECTORY)))
    (RUN_DIRECTORY / "depot/n0/incoming").mkdir()
    (RUN_DIRECTORY / "depot/n0/incoming/17.1").write_text("half of it")
    with open(RUN_DIRECTORY / "store/journal", "ab") as journal:
        journal.write(b"an unfinished frame")
    before = everything_in(RUN_DIRECTORY)

    end = run(one_then_another_that_waits(), "--dry-run")

    assert list(json.loads(end.out)["due"]) == ["second"]
    assert everything_in(RUN_DIRECTORY) == before


def test_how_long_tasks_took_in_a_run_that_was_killed_is_known_to_the_next(run):
    for pipe in ("began", "go"):
        os.mkfifo(pipe)
    process = started(arguments_for(one_then_another_that_waits(), []))
    Path("began").read_bytes()  # waits until the second task writes to it
    events = RunDirectory(RUN_DIRECTORY).latest().events
    wait_for_files(  # events are written a moment after they happen
        lambda: any(isinstance(event, TaskFinished) for event in EventFileReader(events)),
        "the end of the first task is written",
        events.parent,
    )
    process.kill()
    process.communicate()
    assert not any(map(outlives_many_looks, processes_in(RUN_DIRECTORY)))
    directory = RunDirectory(RUN_DIRECTORY)
    facts, record = directory.latest().facts(), directory.new_record()
    EventFileWriter(record.events).close()
    record.begin(facts)  # as a run does before it looks at what others have left

    outcomes = gather_outcomes(directory)

    assert outcomes["first"].seconds > 0


def test_a_dry_run_during_a_run_says_that_the_directory_is_in_use(run):
    for pipe in ("began", "go"):
        os.mkfifo(pipe)
    process = started(arguments_for(one_then_another_that_waits(), []))
    Path("began").read_bytes()

    end = run(one_then_another_that_waits(), "--dry-run", text=True)

    Path("go").write_bytes(b"")
    assert f"is in use by process {process.pid}" in end.err
    assert end_of(process).code == 0


def test_a_run_that_was_forecast_says_so_as_json_and_one_that_was_not_says_null(run):
    first = run(two_branches())
    second = run(two_branches(), "--force", "first")

    assert first.facts["forecast"] is None
    assert 0 < second.facts["forecast"]["low_seconds"] <= second.facts["forecast"]["seconds"]


def test_a_dry_run_says_when_a_run_would_end(run):
    wf = WorkflowBuilder("long")
    wf.task("t", command=["true"], runtime_seconds=300.0)

    end = run(wf, "--dry-run", text=True)

    assert re.search(r"^it should take .* to .* in 9 of 10 cases\)$", end.out, re.MULTILINE)
    assert max(map(len, end.out.splitlines())) < 80


# --- programs ------------------------------------------------------------------------------------


def by_a_script(*words: str) -> WorkflowBuilder:
    wf = WorkflowBuilder("scripted")
    wf.command([*words, "out"], outputs=["out"], id="t")
    return wf


@pytest.mark.parametrize("is_interpreted", [True, False])
def test_a_program_that_changed_makes_its_tasks_due_if_programs_are_tracked(is_interpreted, run):
    script = Path("make.sh").absolute()
    script.write_text("#!/bin/sh\necho one > $1\n")
    script.chmod(0o755)
    wf = by_a_script("sh", str(script)) if is_interpreted else by_a_script(str(script))
    run(wf, "--track-programs")
    script.write_text("#!/bin/sh\necho two > $1\n")

    end = run(wf, "--track-programs")

    assert end.counts == (1, 0, 0, 0)
    assert (OUTPUTS / "out").read_text() == "two\n"
    assert run(wf, "--track-programs").counts == (0, 1, 0, 0)


def test_a_program_that_changed_is_not_looked_at_unless_that_is_asked(run):
    script = Path("make.sh").absolute()
    script.write_text("echo one > $1\n")
    run(by_a_script("sh", str(script)))
    script.write_text("echo two > $1\n")

    assert run(by_a_script("sh", str(script))).counts == (0, 1, 0, 0)
