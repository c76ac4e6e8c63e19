"""Deadlines of real runs: promised and kept, refused, broken on the way, and competing."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dataward
from dataward import WorkflowBuilder, write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.errors import DeadlineRefusedError
from dataward.live.promise_book import PromiseBook, book_directory, drain_news
from dataward.model.events import FinishPromised
from dataward.model.states import RunState
from dataward.world import TheirSlot
from runs.conftest import Run

LONG_SECONDS = 120.0  # nothing here takes so long, however busy the machine


@pytest.fixture(autouse=True)
def _a_book_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def a_chain(seconds: float, command: str = "true", name: str = "step") -> WorkflowBuilder:
    """Three tasks that are said to take so long."""
    wf = WorkflowBuilder("chain")
    for number in range(3):
        wf.command(
            f"{command}; echo {number} > {{outputs}}",
            name=name,
            inputs=[f"f{number - 1}"] if number else [],
            outputs=[f"f{number}"],
            runtime_seconds=seconds,
        )
    return wf


def test_a_deadline_that_fits_is_accepted_and_kept(run: Run) -> None:
    said = run(a_chain(0.1), "--deadline", "2m")

    assert said.code == ExitCode.OK
    assert said.facts["strategy"] == "peercomp"
    assert said.facts["answer"]["accepted"] is True
    assert said.facts["answer"]["answer"].startswith("accepted: will end by ")
    assert said.facts["answer"]["sure"] >= 0.9
    assert said.facts["deadline"]["kept"] is True
    assert -LONG_SECONDS < said.facts["deadline"]["late_seconds"] < 0


def test_the_end_is_told_to_people(run: Run) -> None:
    said = run(a_chain(0.1), "--deadline", "2m", text=True)

    assert "accepted: will end by " in said.err
    assert "only the file's word" in said.err
    assert "deadline     kept: ended " in said.out
    assert "before the deadline" in said.out


def test_a_deadline_that_does_not_fit_is_refused_and_nothing_runs(run: Run) -> None:
    said = run(a_chain(1.0), "--deadline", "1s", text=True)

    assert said.code == ExitCode.REFUSED
    assert said.out.startswith(
        "refused: the deadline is shorter than the critical path, which should"
    )
    assert "the earliest that can be promised is " in said.out
    assert not Path("w.run").exists()


def test_the_earliest_of_a_refusal_is_accepted_when_asked_for_again() -> None:
    workflow = a_chain(1.0)
    with pytest.raises(DeadlineRefusedError) as refused:
        dataward.run(workflow, deadline="1.5s", out="w.run")

    report = dataward.run(workflow, deadline=refused.value.earliest_seconds + 1.0, out="w.run")

    assert report.answer is not None
    assert report.answer.accepted is not None
    assert report.state is RunState.COMPLETE
    assert report.summary.late_seconds < 0


def test_what_nothing_is_known_of_is_refused_until_it_has_run(run: Run) -> None:
    first = run(a_chain(0.0), "--deadline", "2m", text=True)
    assert first.code == ExitCode.REFUSED
    assert "nothing is known of how long 'step' takes" in first.out

    tried = run(a_chain(0.0), "--deadline", "2m", "--best-effort", text=True)
    assert tried.code == ExitCode.OK
    assert "nothing is promised" in tried.err
    assert "nothing was promised, but it ended" in tried.out

    again = run(a_chain(0.0), "--deadline", "2m", "--force", "step")
    assert again.code == ExitCode.OK
    assert again.facts["answer"]["accepted"] is True


def test_a_dry_run_answers_and_leaves_no_promise(run: Run, tmp_path: Path) -> None:
    fits = run(a_chain(0.1), "--deadline", "2m", "--dry-run")
    does_not = run(a_chain(1.0), "--deadline", "1s", "--dry-run")

    assert (fits.code, does_not.code) == (ExitCode.OK, ExitCode.REFUSED)
    assert fits.facts["answer"]["accepted"] is True
    assert does_not.facts["answer"]["earliest_seconds"] > 3.0
    assert not list((tmp_path / "state").rglob("*.page"))


def test_a_broken_promise_is_made_anew_and_told(run: Run) -> None:
    wf = WorkflowBuilder("straggler")
    wf.command("sleep 2.5; echo > {outputs}", name="nap", outputs=["out"], runtime_seconds=0.01)

    said = run(wf, "--deadline", "1s", "--quiet")

    assert said.facts["deadline"]["is_renewed"] is True
    assert said.facts["deadline"]["kept"] is False
    events = list(dataward_events())
    assert [bool(event.why) for event in events][:2] == [False, True]
    assert "took longer than was reserved for it" in events[1].why
    assert events[1].finish > events[0].finish


def dataward_events() -> list[FinishPromised]:
    from dataward.reports.event_file import EventFileReader

    found = EventFileReader(Path("w.run/1/events"))
    return [event for event in found if isinstance(event, FinishPromised)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--deadline", "0s"], "leaves no time at all"),
        (["--deadline", "-2h"], "is negative"),
        (["--deadline", "2020-01-01T10:00"], "is in the past"),
        (["--deadline", "soon"], "is not a time"),
        (["--best-effort"], "--best-effort says what to do if a --deadline cannot be promised"),
    ],
)
def test_bad_deadlines_are_told_in_one_sentence(run: Run, options: list[str], words: str) -> None:
    said = run(a_chain(0.1), *options, text=True)

    assert said.code == ExitCode.USAGE
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_strategy_that_keeps_no_promises_is_named(run: Run) -> None:
    said = run(a_chain(0.1), "--deadline", "2m", "--strategy", "heft", text=True)

    assert "a deadline is kept by --strategy peercomp" in said.err


# --- two runs on one machine ---------------------------------------------------------------------


def started(name: str, deadline: str) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "dataward.cli.main", "run", f"{name}.json"]
    words += ["--slots", "1", "--deadline", deadline, "--quiet"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def a_row(name: str, first: str, tasks: int, order: Path) -> None:
    """Tasks that each note that they ran. If the first does something before, all wait for it."""
    wf = WorkflowBuilder(name)
    for number in range(tasks):
        before, inputs = ("true", [f"{name}0"] if first else []) if number else (first, [])
        command = f"{before or 'true'}; echo {name} >> {order}; echo > {{outputs}}"
        outputs = [f"{name}{number}"]
        wf.command(command, name=name, inputs=inputs, outputs=outputs, runtime_seconds=0.2)
    write_workflow(wf.build(), f"{name}.json")


def is_of_tight(slot: TheirSlot) -> bool:
    """Whether a ready task of the run with a deadline of 5 minutes waits; the other has 10."""
    return slot.is_ready and slot.deadline - time.time() < 400


def test_the_tighter_of_two_runs_goes_first_and_both_keep_their_deadlines(
    tmp_path: Path,
) -> None:
    """The first task of the loose run holds the only core until the tight run waits for it."""
    gate, order = tmp_path / "gate", tmp_path / "order"
    os.mkfifo(gate)
    a_row("loose", f"cat {gate}", 4, order)
    a_row("tight", "", 3, order)
    book = PromiseBook(book_directory(os.environ))
    news = book.watch()

    loose = started("loose", "10m")
    with gate.open("w"):  # waits until the task has opened it, too
        tight = started("tight", "5m")
        while not any(is_of_tight(slot) for slot in book.promised(0, 0.0)):
            assert select.select([news], [], [], LONG_SECONDS)[0], "the tight run never waited"
            drain_news(news)
            book.read()
    os.close(news)
    said = [run.communicate(timeout=LONG_SECONDS)[0].decode() for run in (tight, loose)]

    assert order.read_text().split() == ["loose"] + 3 * ["tight"] + 3 * ["loose"]
    assert all("kept: ended " in words for words in said)
    assert (tight.returncode, loose.returncode) == (0, 0)


def test_a_newcomer_pushes_nobody_out(tmp_path: Path) -> None:
    """What the first run was promised is not given to the second."""
    gate, order = tmp_path / "gate", tmp_path / "order"
    os.mkfifo(gate)
    a_row("first", f"cat {gate}", 4, order)
    wf = WorkflowBuilder("second")
    wf.command("true > {outputs}", name="long", outputs=["o"], runtime_seconds=60.0)

    first = started("first", "20s")
    with gate.open("w"), pytest.raises(DeadlineRefusedError) as refused:
        dataward.run(wf, slots=1, deadline="15s", out="w.run")
    alone = first.communicate(timeout=LONG_SECONDS)[0].decode()

    assert refused.value.earliest_seconds > 60.0
    assert "kept: ended " in alone
