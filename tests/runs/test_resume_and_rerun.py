"""Running again does what has changed and no more; going on after a stop does what was left."""

import os
import shlex
import signal
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.cli.main import main
from dataward.model.events import RunResumed
from dataward.reports.event_file import EventFileReader
from dataward.runs.run_directory import RunDirectory
from runs.real_runs import (
    OUTPUTS,
    RUN_DIRECTORY,
    arguments_for,
    end_of,
    hashes,
    log_line,
    processes_in,
    ran,
    started,
)


def a_chain(second: str = "cat") -> WorkflowBuilder:
    """in -> first -> a -> second -> b -> third -> c, and other -> o beside it."""
    if not Path("in").exists():
        Path("in").write_text("input\n")
    wf = WorkflowBuilder("chain")
    for task, reads, writes, program in (
        ("first", "in", "a", "cat"),
        ("second", "a", "b", second),
        ("third", "b", "c", "cat"),
        ("other", "in2", "o", "cat"),
    ):
        line = f"{log_line(task)}; {program} {reads} > {writes}"
        wf.command(line, inputs=[reads], outputs=[writes], id=task)
    Path("in2").write_text("beside\n")
    return wf


# --- running again -------------------------------------------------------------------------------


def test_a_second_run_skips_everything(run):
    first = run(a_chain())
    assert ran() == ["first", "other", "second", "third"]

    second = run(a_chain())

    assert ran() == []
    assert (first.counts, second.counts) == ((4, 0, 0, 0), (0, 4, 0, 0))
    assert (second.code, second.facts["state"]) == (0, "complete")
    assert hashes(OUTPUTS).keys() == {"c", "o"}


def test_a_changed_command_runs_its_task_and_what_descends_from_it(run):
    run(a_chain(), "--keep", "final")
    ran()

    end = run(a_chain(second="tr a-z A-Z <"), "--keep", "final")

    assert ran() == ["first", "second", "third"]  # the first, for its output was deleted
    assert end.counts == (3, 1, 0, 0)
    assert (OUTPUTS / "c").read_text() == "INPUT\n"


def test_a_changed_command_does_not_run_its_parents_if_their_files_were_kept(run):
    run(a_chain(), "--keep", "all")
    ran()

    run(a_chain(second="tr a-z A-Z <"), "--keep", "all")

    assert ran() == ["second", "third"]
    assert {name: (OUTPUTS / name).read_text() for name in "abc"} == {
        "a": "input\n", "b": "INPUT\n", "c": "INPUT\n",
    }  # fmt: skip


def test_a_changed_input_runs_its_readers_and_what_descends_from_them(run):
    run(a_chain())
    ran()
    Path("in").write_text("INPUT\n")

    end = run(a_chain())

    assert ran() == ["first", "second", "third"]
    assert end.counts == (3, 1, 0, 0)
    assert (OUTPUTS / "c").read_text() == "INPUT\n"


def test_a_touched_input_of_equal_content_runs_nothing(run):
    run(a_chain())
    ran()
    Path("in").write_text("input\n")
    os.utime("in", (1, 1))

    assert run(a_chain()).counts == (0, 4, 0, 0)
    assert ran() == []


@pytest.mark.parametrize("is_edited", [True, False])
def test_an_output_that_was_edited_or_removed_is_made_again(is_edited, run):
    run(a_chain(), "--keep", "final")
    ran()
    (OUTPUTS / "c").unlink()
    if is_edited:
        (OUTPUTS / "c").write_text("other\n")

    end = run(a_chain())

    assert ran() == ["first", "second", "third"]
    assert end.code == 0
    assert (OUTPUTS / "c").read_text() == "input\n"


def test_an_output_with_something_in_its_way_is_put_there_when_that_is_gone(run):
    run(a_chain())
    (OUTPUTS / "c").unlink()
    (OUTPUTS / "c").mkdir()

    stopped = run(a_chain(), text=True)
    (OUTPUTS / "c").rmdir()
    ran()
    end = run(a_chain())

    assert stopped.code == 4
    assert stopped.err.endswith("w.run/outputs/c: Is a directory\n")
    assert ran() == []
    assert end.counts == (0, 4, 0, 0)
    assert (OUTPUTS / "c").read_text() == "input\n"


def test_intermediates_are_gone_after_a_run_and_published_when_all_are_kept(run):
    run(a_chain(), "--keep", "final")
    assert hashes(OUTPUTS).keys() == {"c", "o"}
    assert not (RUN_DIRECTORY / "depot").exists()

    run(a_chain(), "--keep", "all")

    assert hashes(OUTPUTS).keys() == {"a", "b", "c", "o"}
    assert not (RUN_DIRECTORY / "depot").exists()
    assert not (RUN_DIRECTORY / "work").exists()
    assert not (RUN_DIRECTORY / "store").exists()


def test_what_was_complete_before_a_failure_is_kept_when_all_is(run):
    end = run(a_chain(second="exit 1;"), "--keep", "all")

    assert end.counts == (2, 0, 1, 1)
    assert hashes(OUTPUTS).keys() == {"a", "o"}


def test_editing_an_output_after_a_failure_edits_nothing_that_tasks_read(run):
    run(a_chain(second="exit 1;"), "--keep", "all")
    run(a_chain(second="exit 1;"), "--keep", "all")
    with (OUTPUTS / "a").open("a") as file:
        file.write("by hand\n")

    end = run(a_chain(), "--keep", "all")

    assert end.code == 0
    assert {(OUTPUTS / name).read_text() for name in "abc"} == {"input\n"}


def test_cleaning_up_after_a_failure_leaves_what_the_next_run_needs(run):
    assert run(a_chain(second="false")).code == 1
    assert ran() == ["first", "other", "second"]

    with pytest.raises(SystemExit):
        main(["clean", str(RUN_DIRECTORY)])
    again = run(a_chain())

    assert ran() == ["second", "third"]
    assert again.code == 0


def test_a_failed_task_is_tried_again_and_what_was_complete_is_not(run):
    wf = a_chain(second=f"test -e {Path.cwd()}/flag && cat")
    assert run(wf).counts == (2, 0, 1, 1)
    assert ran() == ["first", "other", "second"]
    Path("flag").touch()

    end = run(wf)

    assert ran() == ["second", "third"]
    assert end.counts == (2, 2, 0, 0)
    assert (OUTPUTS / "c").read_text() == "input\n"


def a_fork_that_never_writes_the_same(left: str) -> WorkflowBuilder:
    """One file that is different each time, and two tasks that read it."""
    wf = WorkflowBuilder("fork")
    now = "date +%s%N > x"
    wf.command(f"{log_line('maker')}; {now}", outputs=["x"], id="maker")
    wf.command(f"{log_line('left')}; {left} x > l", inputs=["x"], outputs=["l"], id="left")
    wf.command(f"{log_line('right')}; cat x > r", inputs=["x"], outputs=["r"], id="right")
    wf.command(f"{log_line('last')}; cat r > z", inputs=["r"], outputs=["z"], id="last")
    return wf


def test_a_file_made_again_that_turns_out_different_makes_its_other_readers_run_too(run):
    run(a_fork_that_never_writes_the_same("cat"), "--keep", "final")
    ran()

    end = run(a_fork_that_never_writes_the_same("cat -u"), "--keep", "final")

    assert ran() == ["last", "left", "maker", "right"]
    assert end.code == 0
    assert (OUTPUTS / "l").read_text() == (OUTPUTS / "z").read_text()
    assert end.counts == (4, 0, 0, 0)
    assert run(a_fork_that_never_writes_the_same("cat -u")).counts == (0, 4, 0, 0)


def test_a_file_made_again_that_is_the_same_leaves_its_other_readers_alone(run):
    def fork(left: str) -> WorkflowBuilder:
        wf = WorkflowBuilder("fork")
        wf.command(f"{log_line('maker')}; echo x > x", outputs=["x"], id="maker")
        wf.command(f"{log_line('left')}; {left} x > l", inputs=["x"], outputs=["l"], id="left")
        wf.command(f"{log_line('right')}; cat x > r", inputs=["x"], outputs=["r"], id="right")
        return wf

    run(fork("cat"), "--keep", "final")
    ran()

    end = run(fork("cat -u"), "--keep", "final")

    assert ran() == ["left", "maker"]
    assert end.counts == (2, 1, 0, 0)


def test_a_run_on_more_nodes_skips_what_one_node_did(run):
    run(a_chain(second="exit 1;"))
    ran()

    end = run(a_chain(), "--nodes", "3")

    assert set(ran()) == {"second", "third"}, "perhaps with replicas"
    assert end.counts == (2, 2, 0, 0)


# --- refusals ------------------------------------------------------------------------------------


def test_there_must_be_a_run_to_resume(run):
    end = run(a_chain(), "--resume", text=True)

    assert end.code == 2
    assert end.err == "dataward: w.run holds no run to resume; run without --resume\n"
    assert not RUN_DIRECTORY.exists()


def test_a_complete_run_cannot_be_resumed(run):
    run(a_chain())

    end = run(a_chain(), "--resume", text=True)

    assert end.code == 2
    assert "w.run/1 is complete, so there is nothing to resume" in end.err


def test_a_run_of_another_workflow_cannot_be_resumed(run):
    run(a_chain(second="exit 1;"))

    end = run(a_chain(), "--resume", text=True)

    assert end.code == 2
    assert "w.json has changed since w.run/1 was begun" in end.err


def test_a_run_killed_before_it_had_begun_is_no_run(run):
    """Its directory was made, and perhaps its workflow and its events, but not what says so."""
    run(a_chain(second="exit 1;"))
    RunDirectory(RUN_DIRECTORY).new_record()

    end = run(a_chain(second="exit 1;"), "--resume")

    assert end.facts["run"] == "w.run/1"
    assert run(a_chain()).facts["run"] == "w.run/3"


def test_a_failed_run_can_be_resumed(run):
    wf = a_chain(second=f"test -e {Path.cwd()}/flag && cat")
    run(wf)
    ran()
    Path("flag").touch()

    end = run(wf, "--resume")

    assert ran() == ["second", "third"]
    assert end.counts == (4, 0, 0, 0)
    assert end.facts["run"] == "w.run/1"


def test_the_time_of_a_resumed_run_goes_on_where_it_had_stopped(run):
    wf = a_chain(second=f"test -e {Path.cwd()}/flag && cat")
    run(wf)
    before = list(EventFileReader(RUN_DIRECTORY / "1/events"))
    Path("flag").touch()

    end = run(wf, "--resume")

    resumed, *after = list(EventFileReader(RUN_DIRECTORY / "1/events"))[len(before) :]
    assert isinstance(resumed, RunResumed)
    assert resumed.start == 2
    stopped_at = max(event.at for event in before)
    assert min(event.at for event in (resumed, *after)) >= stopped_at
    assert end.facts["makespan_seconds"] > stopped_at
    facts = RunDirectory(RUN_DIRECTORY).latest().facts()
    assert facts.began < facts.counted_from
    assert facts.clock_seconds(facts.counted_from + 7.0) == pytest.approx(7.0)


def test_only_one_at_a_time_may_run_in_a_directory(run):
    run(a_chain())
    lock = RunDirectory(RUN_DIRECTORY).lock()
    try:
        end = run(a_chain(), text=True)
    finally:
        lock.release()

    assert end.code == 3
    assert end.err == (
        f"dataward: w.run is in use by process {os.getpid()}; only one at a time may have it open\n"
    )
    assert run(a_chain()).code == 0


def test_a_directory_with_other_things_in_it_is_not_taken(run):
    Path("mine").mkdir()
    Path("mine/thesis").write_text("dear")

    end = run(a_chain(), "--out", "mine", text=True)

    assert end.code == 4
    assert "cannot write mine: it holds other things" in end.err
    assert hashes(Path("mine")).keys() == {"thesis"}
    assert ran() == []


def test_a_file_is_not_taken_for_a_run_directory(run):
    Path("mine").write_text("dear")

    end = run(a_chain(), "--out", "mine", text=True)

    assert end.code == 4
    assert end.err == "dataward: cannot write mine: File exists\n"


def test_an_empty_directory_is_taken_and_one_reached_by_a_link_as_well(run):
    Path("real").mkdir()
    Path("link").symlink_to("real")
    wf = a_chain()
    wf.command("echo x > real; ln -s real linked", outputs=["linked"], id="linker")

    end = run(wf, "--out", "link")

    assert end.code == 0, end.reasons
    assert Path("real/outputs/linked").read_text() == "x\n"


# --- stopping ------------------------------------------------------------------------------------


def a_workflow_held_up() -> WorkflowBuilder:
    """One task says that it runs and waits to be let go; another comes after it."""
    for name in ("runs", "go"):
        os.mkfifo(name)
    here = Path.cwd()
    wf = WorkflowBuilder("held up")
    held = f"{log_line('held')}; echo yes > {here}/runs; cat {here}/go > a"
    wf.command(held, outputs=["a"], id="held")
    wf.command(f"{log_line('after')}; cat a > b", inputs=["a"], outputs=["b"], id="after")
    return wf


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_once_it_lets_running_tasks_end_and_begins_no_more(number):
    process = started(arguments_for(a_workflow_held_up(), [], json=False))
    assert Path("runs").read_text() == "yes\n"

    process.send_signal(number)
    assert "stopping: 1 running task may" in process.stderr.readline()
    Path("go").write_text("content\n")
    end = end_of(process, is_json=False)

    assert end.code == 130
    assert ran() == ["held"]
    command = end.out.rpartition("go on with: ")[2].strip()
    assert command == "dataward run w.json --out w.run --resume --slots 2"
    resumed = end_of(started([*shlex.split(command)[1:], "--json"]))
    assert resumed.code == 0
    assert ran() == ["after"]
    assert resumed.counts == (2, 0, 0, 0)
    assert (OUTPUTS / "b").read_text() == "content\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_twice_it_ends_running_tasks(number):
    options = ["--set", "grace_seconds=0.1"]
    process = started(arguments_for(a_workflow_held_up(), options, json=False))
    assert Path("runs").read_text() == "yes\n"

    process.send_signal(number)
    process.stderr.readline()
    process.send_signal(number)
    end = end_of(process, is_json=False)

    assert end.code == 130
    assert "held up: interrupted" in end.out
    assert "2 unfinished, of 2" in end.out
    assert processes_in(RUN_DIRECTORY) == []
    assert ran() == ["held"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_the_run_was_told_to_ignore_does_not_stop_it(number):
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does; processes inherit it
    process = started(arguments_for(a_workflow_held_up(), []))
    signal.signal(number, before)
    assert Path("runs").read_text() == "yes\n"

    process.send_signal(number)
    Path("go").write_text("content\n")
    end = end_of(process)

    assert end.code == 0
    assert ran() == ["after", "held"]


def test_a_task_that_ignores_being_asked_to_end_is_ended_all_the_same():
    wf = WorkflowBuilder("deaf")
    os.mkfifo("runs")
    line = f"trap '' TERM INT; echo yes > {Path.cwd()}/runs; while :; do sleep 1000; done"
    wf.command(line, id="deaf")
    process = started(arguments_for(wf, ["--set", "grace_seconds=0.1"], json=False))
    Path("runs").read_text()

    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    end = end_of(process, is_json=False)

    assert end.code == 130
    assert processes_in(RUN_DIRECTORY) == []
