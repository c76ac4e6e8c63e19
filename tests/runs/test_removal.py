"""Tasks are removed from a run under way by another process, and run again when asked for."""

import os
from pathlib import Path
from threading import Thread

import pytest

from dataward import WorkflowBuilder
from dataward.cli.main import main
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.runs.removal_requests import (
    NotUnderWayError,
    RemovalAnswer,
    RemovalRequests,
    request_removal,
)
from dataward.runs.run_directory import RunDirectory, RunFacts, RunRecord
from file_changes import wait_for_files
from runs.real_runs import (
    OUTPUTS,
    RUN_DIRECTORY,
    arguments_for,
    end_of,
    log_line,
    processes_in,
    ran,
    started,
)

REMOVED, COMPLETE = TaskState.REMOVED, TaskState.COMPLETE


def two_branches() -> WorkflowBuilder:
    """stuck -> after -> last, where stuck ends only if there is a flag; and beside, which waits."""
    here = Path.cwd()
    wf = WorkflowBuilder("branches")
    for name in ("started", "go", "never"):
        if not Path(name).exists():
            os.mkfifo(name)
    stuck = f"test -e {here}/flag || {{ echo up > {here}/started; cat {here}/never; }}; echo s > s"
    for task, reads, writes, line in (
        ("stuck", [], "s", stuck),
        ("after", ["s"], "a", "cat s > a"),
        ("last", ["a"], "l", "cat a > l"),
        ("beside", [], "b", f"test -e {here}/flag || cat {here}/go; echo b > b"),
    ):
        wf.command(f"{log_line(task)}; {line}", inputs=reads, outputs=[writes], id=task)
    return wf


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command in this process, and what it said."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(list(words))
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out + said.err


def test_a_task_is_removed_from_a_run_under_way_and_run_when_the_run_is_resumed(run, capsys):
    process = started(arguments_for(two_branches(), []))
    assert Path("started").read_text() == "up\n"

    removed = command(capsys, "remove", "w.run", "stuck")
    again = command(capsys, "remove", "w.run", "last", "after")
    Path("go").write_text("on\n")
    end = end_of(process)

    assert removed == (0, "removed stuck, with 2 tasks that depend on it\n")
    assert again == (0, "removed after\nremoved last\n")
    assert (end.code, end.facts["state"]) == (5, "partial")
    assert (end.facts["complete"], end.facts["removed"], end.facts["unfinished"]) == (1, 3, 0)
    assert ran() == ["beside", "stuck"]
    assert processes_in(Path.cwd()) == []
    assert "it ran on n0" in command(capsys, "why", "stuck", "--run", "w.run")[1]
    why = command(capsys, "why", "last", "--run", "w.run")[1]
    assert why == "last was removed with stuck, which it depends on\n"
    assert not (RUN_DIRECTORY / "1" / "removals").exists()

    Path("flag").touch()
    resumed = run(two_branches(), "--resume")

    assert ran() == ["after", "last", "stuck"]
    assert (resumed.code, resumed.facts["state"], resumed.facts["removed"]) == (0, "complete", 0)
    assert (OUTPUTS / "l").read_text() == "s\n"


def test_a_later_run_runs_what_was_removed(run, capsys):
    process = started(arguments_for(two_branches(), []))
    assert Path("started").read_text() == "up\n"
    command(capsys, "remove", "w.run", "stuck")
    Path("go").write_text("on\n")
    end_of(process)
    ran()
    Path("flag").touch()

    later = run(two_branches())

    assert ran() == ["after", "last", "stuck"]
    assert later.counts == (3, 1, 0, 0)
    assert later.facts["run"] == "w.run/2"


def test_a_complete_task_is_not_removed(capsys):
    wf = WorkflowBuilder("two")
    os.mkfifo("started")
    os.mkfifo("go")
    here = Path.cwd()
    wf.command("echo f > f", outputs=["f"], id="first")
    wf.command(
        f"cat f; echo up > {here}/started; cat {here}/go > s",
        inputs=["f"], outputs=["s"], id="second",
    )  # fmt: skip
    process = started(arguments_for(wf, []))
    assert Path("started").read_text() == "up\n"

    code, said = command(capsys, "remove", "w.run", "first")
    Path("go").write_text("on\n")

    assert (code, said) == (1, "first is complete already; it was not removed\n")
    assert end_of(process).code == 0


# --- what is said where nothing can be removed ---------------------------------------------------


def test_a_run_that_is_over_has_nothing_to_remove(run, capsys):
    wf = WorkflowBuilder("one")
    wf.command("echo f > f", outputs=["f"], id="first")
    run(wf)

    code, said = command(capsys, "remove", "w.run", "first")

    assert (code, said) == (3, "dataward: w.run/1 is not under way; nothing was removed\n")


def test_a_task_that_does_not_exist_is_not_asked_for(run, capsys):
    wf = WorkflowBuilder("one")
    wf.command("echo f > f", outputs=["f"], id="first")
    run(wf)

    code, said = command(capsys, "remove", "w.run", "frist")

    assert code == 2
    assert "did you mean 'first'?" in said


# --- requests ------------------------------------------------------------------------------------


@pytest.fixture
def record() -> RunRecord:
    place = RunDirectory(Path("x.run"))
    place.make()
    record = place.new_record()
    record.write_facts(RunFacts("x", "x.json", 0.0))
    return record


def first_requests(record: RunRecord) -> list[tuple[Path, list[TaskId]]]:
    """What has been asked for, once there is something."""
    requests, places = RemovalRequests(record), (record.path, record.removals)
    wait_for_files(lambda: list(requests.unanswered()), "somebody asks", *places)
    return list(requests.unanswered())


def test_whoever_asks_gets_the_answer_and_nothing_is_left(record):
    lock = RunDirectory(record.directory).lock()
    requests = RemovalRequests(record)
    said: list[RemovalAnswer] = []
    asking = Thread(target=lambda: said.extend(request_removal(record, [TaskId("a")])))

    assert list(requests.unanswered()) == []
    asking.start()
    ((request, tasks),) = first_requests(record)
    requests.answer(request, [RemovalAnswer(TaskId("a"), REMOVED, 2)])
    asking.join()
    lock.release()

    assert tasks == ["a"]
    assert said == [RemovalAnswer(TaskId("a"), REMOVED, 2)]
    assert not record.removals.exists()


def test_whoever_asks_a_run_that_ends_without_an_answer_is_told_so(record):
    lock = RunDirectory(record.directory).lock()
    said: list[str] = []

    def ask() -> None:
        try:
            request_removal(record, [TaskId("a")])
        except NotUnderWayError as error:
            said.append(str(error))

    asking = Thread(target=ask)
    asking.start()
    first_requests(record)
    lock.release()
    asking.join()

    assert said == ["x.run/1 has ended; nothing was removed"]
    assert not record.removals.exists()


def test_an_answered_request_is_not_answered_again(record):
    record.removals.mkdir()
    request = record.removals / "1-1.request"
    request.write_text('["a"]')
    requests = RemovalRequests(record)

    requests.answer(request, [RemovalAnswer(TaskId("a"), COMPLETE)])

    assert list(requests.unanswered()) == []


def test_what_is_no_request_is_passed_over(record):
    record.removals.mkdir()
    (record.removals / "notes.txt").write_text("hello")
    (record.removals / "1-1.request").write_text("half a req")
    (record.removals / "1-2.request").write_text('["a"]')

    assert [tasks for _, tasks in RemovalRequests(record).unanswered()] == [["a"]]
