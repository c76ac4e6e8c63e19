"""`dataward logs`: what a task printed, to the byte."""

import pytest

from cli.conftest import Dataward
from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run, write_log
from dataward.cli.exit_codes import ExitCode
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptEnded, TaskSkipped
from dataward.model.states import AttemptOutcome
from dataward.model.workflow import TaskId
from dataward.runs.run_directory import RunRecord
from reports.lives import attempt_of, ran, started


@pytest.fixture
def run(_a_plain_place: None) -> RunRecord:
    record = a_recorded_run(a_bad_run())
    write_log(record, "left", attempt_of("left", 1), "err", b"first\n")
    write_log(record, "left", attempt_of("left", 2), "out", b"some output\n")
    write_log(record, "left", attempt_of("left", 2), "err", b"cannot open x\n")
    write_log(record, "split", attempt_of("split"), "out", b"only out\n")
    write_log(record, "split", attempt_of("split"), "err", b"")
    return record


def test_both_streams_of_the_last_attempt_have_headings(run: RunRecord, dataward: Dataward) -> None:
    said = dataward("logs", "diamond.run", "left")

    assert said.code == ExitCode.OK
    assert said.out == (
        "==> left n0.1.left2 stdout <==\nsome output\n"
        "==> left n0.1.left2 stderr <==\ncannot open x\n"
    )


def test_one_stream_alone_is_printed_as_it_is(run: RunRecord, dataward: Dataward) -> None:
    assert dataward("logs", "diamond.run", "split").out == "only out\n"
    assert dataward("logs", "diamond.run", "left", "--stderr").out == "cannot open x\n"
    assert dataward("logs", "diamond.run", "left", "--stdout").out == "some output\n"


def test_an_attempt_may_be_named(run: RunRecord, dataward: Dataward) -> None:
    said = dataward("logs", "diamond.run/1", "left", "--attempt", "n0.1.left1")

    assert said.out == "first\n"


def test_bytes_that_are_no_text_come_out_unchanged(run: RunRecord, process: Dataward) -> None:
    path = write_log(run, "split", attempt_of("split"), "out", b"\xff\x00\x1b[31mred\n")

    said = process("logs", "diamond.run", "split", shell=f"| cmp - '{path}'")

    assert said.code == ExitCode.OK, said.err


def test_a_reader_that_leaves_early_is_no_failure(run: RunRecord, process: Dataward) -> None:
    write_log(run, "split", attempt_of("split"), "out", b"line\n" * 1_000_000)

    said = process("logs", "diamond.run", "split", shell="| head -1 > /dev/null")

    assert (said.code, said.err) == (ExitCode.OK, "")


def test_the_attempt_that_won_is_shown_though_another_began_later(dataward: Dataward) -> None:
    late = started("split", 0.9, node="n1")
    stopped = AttemptEnded(
        2.0, TaskId("split"), attempt_of("split", node="n1"), "n1", AttemptOutcome.CANCELLED
    )
    record = a_recorded_run([*ran("split", 1.0)[:4], *late, *ran("split", 1.0)[4:], stopped])
    write_log(record, "split", attempt_of("split"), "out", b"winner\n")
    write_log(record, "split", attempt_of("split", node="n1"), "out", b"loser\n")

    assert dataward("logs", "diamond.run", "split").out == "winner\n"


def test_a_task_that_printed_nothing_says_so(run: RunRecord, dataward: Dataward) -> None:
    both = dataward("logs", "diamond.run", "right")
    one = dataward("logs", "diamond.run", "split", "--stderr")

    assert (both.code, both.out) == (ExitCode.OK, "")
    assert both.err == "right printed nothing on stdout and stderr (attempt n0.1.right1)\n"
    assert one.err == "split printed nothing on stderr (attempt n0.1.split1)\n"


def test_a_task_that_did_not_run_says_so(run: RunRecord, dataward: Dataward) -> None:
    said = dataward("logs", "diamond.run", "join")
    assert said.code == ExitCode.OK
    assert said.err == "join did not run in diamond.run/1, so it printed nothing\n"

    a_recorded_run([TaskSkipped(0.0, TaskId("left"))])
    assert "left did not run in diamond.run/2" in dataward("logs", "diamond.run", "left").err


def test_a_very_long_name_has_its_log(dataward: Dataward) -> None:
    name = "x" * 300
    wf = WorkflowBuilder("long")
    wf.task(name)
    record = a_recorded_run(ran(name, 1.0), workflow=wf.build())
    write_log(record, name, attempt_of(name), "out", b"here\n")

    assert dataward("logs", "diamond.run", name).out == "here\n"


def test_an_unknown_task_is_bad_input_with_close_names(dataward: Dataward) -> None:
    a_recorded_run(a_good_run())

    said = dataward("logs", "diamond.run", "rihgt")

    assert said.code == ExitCode.BAD_INPUT
    assert "did you mean 'right'?" in said.err


def test_an_unknown_attempt_is_told_with_those_there_are(
    run: RunRecord, dataward: Dataward
) -> None:
    said = dataward("logs", "diamond.run", "left", "--attempt", "n9.9.9")

    assert said.code == ExitCode.USAGE
    assert "no attempt 'n9.9.9' in this run; there are n0.1.left1, n0.1.left2" in said.err


def test_a_run_that_is_not_there_is_bad_input(dataward: Dataward) -> None:
    assert dataward("logs", "nowhere", "left").code == ExitCode.BAD_INPUT
    assert dataward("logs", "left").code == ExitCode.USAGE
