"""What is said when a run has ended: the numbers, the roots of all failures, where to look."""

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from builders import a_diamond
from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run, write_log
from dataward.cli.run_end import TAIL_BYTES, RunEnd, end_as_json, last_lines, print_end
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import Event, InputsStaged, RunEnded, TaskSkipped
from dataward.model.states import RunState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.progress import RunProgress
from dataward.reports.run_summary import RunTally
from dataward.runs.recorded_run import RunEnding
from dataward.runs.run_directory import ended_state
from dataward.runs.stale_outputs import StaleOutputs
from reports.lives import attempt_of, error, failed, ran, removed, run_started, started


def an_end(
    events: list[Event],
    *,
    workflow: Workflow | None = None,
    bound_seconds: float = 5.0,
    is_interrupted: bool = False,
    source: str = "diamond.json",
) -> RunEnd:
    workflow = workflow or a_diamond()
    progress, tally = RunProgress(workflow), RunTally()
    for event in events:
        progress.add(event)
        tally.add(event)
    record = a_recorded_run(events, workflow=workflow)
    state = ended_state(progress.counts().failed, progress.counts().removed)
    if is_interrupted:
        state = RunState.INTERRUPTED
    stale = StaleOutputs()
    ending = RunEnding(state, progress, tally.summary(), record, bound_seconds, stale)
    return RunEnd(ending, source)


def told(end: RunEnd, width: int = 80) -> str:
    out = StringIO()
    print_end(end, Console(file=out, width=width, highlight=False, markup=False, emoji=False))
    return out.getvalue()


# --- for people ----------------------------------------------------------------------------------


def test_a_run_that_went_well() -> None:
    staged = InputsStaged(1.0, TaskId("left"), "n0.1.9", "n0", 750, 250)
    end = an_end([*a_good_run()[:-1], staged, RunEnded(10.0, 4, 0, 0, 0)])
    end.record.outputs.mkdir()

    assert told(end) == (
        "diamond: complete\n"
        "  tasks        4 complete, of 4\n"
        "  makespan     10.0 s, 2.00 x the lower bound of 5.00 s\n"
        "  utilisation  50.0% of 2 cores\n"
        "  input bytes  75.0% of 1.00 kB found locally\n"
        "slowest tasks\n"
        "  join   4.00 s\n"
        "  right  3.00 s\n"
        "  left   2.00 s\n"
        "  split  1.00 s\n"
        "outputs  diamond.run/outputs\n"
        "logs     diamond.run/1/logs\n"
    )


def test_a_run_in_which_nothing_had_to_run_has_few_numbers() -> None:
    skipped = [TaskSkipped(0.0, task) for task in a_diamond().task_ids]

    text = told(an_end([run_started(), *skipped, RunEnded(0.5, 4, 0, 0, 0)]))

    assert "0 complete, 4 skipped (as in the run before), of 4" in text
    assert "utilisation" not in text
    assert "lower bound" not in text
    assert "slowest" not in text


def test_roots_of_failures_are_told_with_the_end_of_what_they_printed() -> None:
    end = an_end(a_bad_run())
    content = b"".join(b"line %d\n" % i for i in range(9)) + b"\x1b[31mcannot open x\x1b[0m\n"
    write_log(end.record, "left", attempt_of("left", 2), "err", content)
    write_log(end.record, "left", attempt_of("left", 1), "err", b"of another attempt\n")

    text = told(end)

    assert text.startswith("diamond: failed\n")
    assert "2 complete, 1 failed, 1 therefore not run, of 4" in text
    assert (
        "1 task failed\n"
        "  left: exit code 3 (2 attempts)\n"
        "    | line 5\n"
        "    | line 6\n"
        "    | line 7\n"
        "    | line 8\n"
        "    | cannot open x\n"
        "and 1 task that depended on it did not run\n"
    ) in text
    assert "join:" not in text
    assert "another attempt" not in text
    assert "lower bound" not in text  # of a workflow that did not run


def test_only_the_first_failures_are_told_and_the_rest_counted() -> None:
    wf = WorkflowBuilder("row")
    for i in range(15):
        wf.task(f"t{i}")
    broken = [e for i in range(15) for e in (*error(f"t{i}", 1.0), failed(f"t{i}", 1.0))]

    end = an_end(broken, workflow=wf.build())

    assert "15 tasks failed" in told(end)
    assert told(end).count("exit code 3") == 10
    assert "  and 5 more (--json lists all)" in told(end)
    assert len(end_as_json(end)["failures"]) == 15


def test_an_interrupted_run_says_how_to_go_on() -> None:
    events = [run_started(), *ran("split", 1.0), *started("left", 1.0), RunEnded(2.0, 1, 0, 0, 0)]

    text = told(an_end(events, is_interrupted=True, source="my file.json"))

    assert text.startswith("diamond: interrupted\n")
    assert "1 complete, 3 unfinished, of 4" in text
    assert text.endswith(
        "interrupted; go on with: dataward run 'my file.json' --out diamond.run --resume\n"
    )


def test_a_run_from_which_tasks_were_removed_says_so_and_how_to_run_them() -> None:
    lives = [*ran("split", 1.0), removed("left", 1.0), *ran("right", 2.0), removed("join", 2.0)]
    end = an_end([run_started(), *lives, RunEnded(2.0, 2, 0, 0, 0, 2)])

    text, found = told(end), end_as_json(end)

    assert text.startswith("diamond: partial\n")
    assert "2 complete, 2 removed, of 4" in text
    resume = "dataward run diamond.json --out diamond.run --resume"
    assert text.endswith(f"run what was removed with: {resume}\n")
    assert (found["removed"], found["unfinished"], found["state"]) == (2, 0, "partial")
    assert found["resume"] == resume


def test_a_run_that_failed_and_from_which_tasks_were_removed_has_failed() -> None:
    lives = [*ran("split", 1.0), removed("left", 1.0), *error("right", 2.0), failed("right", 2.0)]

    text = told(an_end([run_started(), *lives, removed("join", 2.0), RunEnded(2.0, 1, 1, 0, 0, 2)]))

    assert text.startswith("diamond: failed\n")
    assert "1 complete, 1 failed, 2 removed, of 4" in text


@pytest.mark.parametrize("width", [40, 60, 120])
def test_no_name_and_no_log_draws_on_the_terminal(width: int) -> None:
    name = "[red]" + "日" * 300
    wf = WorkflowBuilder(name)
    wf.task(name)
    events = [*error(name, 1.0, "exit\x1b[2J code\n3"), failed(name, 1.0)]
    end = an_end(events, workflow=wf.build(), is_interrupted=True, source="\x1b]0;owned\x07.json")
    write_log(end.record, name, attempt_of(name), "err", b"\x1b]0;x\x07 \xff\x00\tend\r\n")

    text = told(end, width)

    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "[red]日" in text
    assert "exit\\x1b[2J code\\n3" in text
    assert "\ufffd" in text


# --- for programs --------------------------------------------------------------------------------


def test_json_has_the_same_facts() -> None:
    end = an_end(a_bad_run())
    write_log(end.record, "left", attempt_of("left", 2), "err", b"cannot open x\n")

    found = msgspec.json.decode(msgspec.json.encode(end_as_json(end)))

    assert (found["workflow"], found["run"], found["state"]) == (
        "diamond",
        "diamond.run/1",
        "failed",
    )
    assert (found["tasks"], found["complete"], found["skipped"]) == (4, 2, 0)
    assert (found["failed"], found["failed_with_parent"], found["unfinished"]) == (1, 1, 0)
    assert (found["makespan_seconds"], found["lower_bound_seconds"]) == (4.0, 5.0)
    assert found["failures"] == [
        {
            "task": "left",
            "attempt": attempt_of("left", 2),
            "node": "n0",
            "attempts": 2,
            "reason": "exit code 3",
            "stderr": ["cannot open x"],
        }
    ]
    assert found["slowest"][0] == {"task": "split", "wall_seconds": 1.0}
    assert (found["outputs"], found["logs"]) == ("diamond.run/outputs", "diamond.run/1/logs")
    assert found["resume"] is None


def test_json_of_an_interrupted_run_has_the_command_that_goes_on() -> None:
    end = an_end([run_started()], is_interrupted=True, bound_seconds=0.0)

    found = end_as_json(end)

    assert (found["state"], found["unfinished"]) == ("interrupted", 4)
    assert found["resume"] == "dataward run diamond.json --out diamond.run --resume"


# --- the end of a log ----------------------------------------------------------------------------


def test_the_last_lines_of_a_log_are_few_and_have_something_in_them() -> None:
    Path("log").write_bytes(b"\n".join(b"line %d" % i for i in range(99)) + b"\n\n  \n")

    assert last_lines(Path("log")) == [f"line {i}" for i in range(94, 99)]


def test_only_the_end_of_a_huge_log_is_read() -> None:
    with Path("log").open("wb") as file:
        file.truncate(1 << 40)  # sparse: reading all of it would take a day
        file.seek(0, 2)
        file.write(b"\nthe end")

    lines = last_lines(Path("log"))

    assert lines[-1] == "the end"
    assert sum(map(len, lines)) <= TAIL_BYTES


def test_a_progress_bar_in_a_log_counts_as_lines() -> None:
    Path("log").write_bytes(b"10%\r20%\r30%\r40%\r50%\r60%\rdone\n")

    assert last_lines(Path("log")) == ["30%", "40%", "50%", "60%", "done"]


def test_a_log_that_is_not_there_or_empty_has_no_lines() -> None:
    Path("empty").write_bytes(b"")
    Path("directory").mkdir()

    assert last_lines(Path("nowhere")) == []
    assert last_lines(Path("empty")) == []
    assert last_lines(Path("directory")) == []
