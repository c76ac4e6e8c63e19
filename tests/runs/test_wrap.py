"""``--wrap``: every command, or those of one type, run by another program."""

from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS, RUN_DIRECTORY


def a_workflow() -> WorkflowBuilder:
    wf = WorkflowBuilder("wrapped")
    wf.command("echo \"$BY:  'a  b'\" > {outputs}", outputs=["line"], id="line_1", name="line_1")
    script = 'echo "$BY:" "$@" > words'
    words = ["sh", "-c", script, "sh", "a  b", "$HOME", "'"]
    wf.command(words, outputs=["words"], id="words_1", name="words_1")
    return wf


def test_a_command_is_one_or_more_words_of_the_wrapper_as_it_was(run):
    end = run(a_workflow(), "--wrap", "env BY=me {command}")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "line").read_text() == "me:  'a  b'\n"
    assert (OUTPUTS / "words").read_text() == "me: a  b $HOME '\n"


def test_a_command_inside_a_word_is_quoted_for_the_shell(run):
    end = run(a_workflow(), "--wrap", "sh -c 'BY=me; export BY; exec {command}'")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "line").read_text() == "me:  'a  b'\n"
    assert (OUTPUTS / "words").read_text() == "me: a  b $HOME '\n"


def test_a_wrapper_of_a_type_goes_before_that_of_all(run):
    run(a_workflow(), "--wrap", "words=env BY=type {command}", "--wrap", "env BY=all {command}")

    assert (OUTPUTS / "line").read_text().startswith("all:")
    assert (OUTPUTS / "words").read_text().startswith("type:")


def test_only_tasks_whose_wrapper_has_changed_run_again(run):
    run(a_workflow())
    end = run(a_workflow(), "--wrap", "line=env BY=me {command}")
    again = run(a_workflow(), "--wrap", "line=env BY=me {command}")

    assert end.counts == (1, 1, 0, 0)
    assert again.counts == (0, 2, 0, 0)
    assert (OUTPUTS / "line").read_text().startswith("me:")


def test_functions_are_called_without_a_wrapper(run):
    wf = a_workflow()
    wf.call(len, "four", id="call")

    end = run(wf, "--wrap", "env BY=me {command}")

    assert end.code == 0, end.reasons
    assert end.facts["complete"] == 3


@pytest.mark.parametrize(
    ("wraps", "said"),
    [
        (["nice -n 19"], "does not say where its {command} goes"),
        (["nice 'oh {command}"], "No closing quotation"),
        (["{command}", "nice {command}"], "two wrappers"),
        (["blast=nice {command}"], "there is no task of type 'blast'; there are line, words"),
        (["line="], "does not say where its {command} goes"),
    ],
)
def test_wrappers_that_make_no_sense_are_refused_before_anything_runs(run, wraps, said):
    end = run(a_workflow(), *(word for wrap in wraps for word in ("--wrap", wrap)), text=True)

    assert end.code == 2
    assert said in end.err
    assert not RUN_DIRECTORY.exists()


def test_a_resumed_run_must_have_the_same_wrapper(run):
    wf = WorkflowBuilder("fails")
    wf.command("test -e there && touch {outputs}", outputs=["o"], id="t")
    run(wf, "--wrap", "env BY=me {command}")

    other = run(wf, "--resume", text=True)
    same = run(wf, "--resume", "--wrap", "env BY=me {command}")

    assert "has changed since" in other.err
    assert list(same.reasons) == ["t"]


def test_a_wrapper_may_be_a_program_that_the_user_has_written(run):
    Path("wrapper").write_text('#!/bin/sh\nread line\necho "$line" > "$1"; shift\nexec "$@"\n')
    Path("wrapper").chmod(0o755)
    wf = WorkflowBuilder("streams")
    wf.command(["echo", "x"], outputs=["said"], stdin="in", stdout="o", id="t")
    Path("in").write_text("heard\n")

    end = run(wf, "--wrap", f"{Path('wrapper').absolute()} said {{command}}")

    assert end.code == 0, end.reasons
    assert [(OUTPUTS / name).read_text() for name in ("said", "o")] == ["heard\n", "x\n"]
