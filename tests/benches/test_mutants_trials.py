import asyncio
import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from bench.mutants import trials
from bench.mutants.bench import JUDGED, Campaign, Options
from bench.mutants.draw import Mutant
from bench.mutants.fence import fenced, not_fenced, why_no_fence
from bench.mutants.records import (
    COSTS_TIME,
    EQUIVALENT,
    Judgement,
    Judgements,
    Records,
    Trial,
    read_judgements,
    write_unjudged,
)
from bench.mutants.rehearsal import CannotRehearse, Rehearsal, rehearse
from bench.mutants.rooms import Room
from bench.mutants.tables import print_survivors, rooms_table
from bench.mutants.trials import CAUGHT, NOT_RUN, SURVIVED, TIMED_OUT, Copy, Verdict
from benches.tiny_project import SUMS, a_project, drawn

TEST = "tests/test_sums.py::test_four"
PLAIN = Room("tiny", ("src/tiny",), ("tests",))


def a_campaign(root: Path, kept: Path, fence: trials.Fence = not_fenced, **options) -> Campaign:
    return Campaign(a_project(root), Options(**options), kept, fence, say=lambda sentence: None)


def nothing_may_run(place: Path, sources: Path) -> list[str]:
    raise AssertionError("a test was run")


def a_mutant(line: str, becomes: str, *, digest: str = "d") -> Mutant:
    """The sums with another line in the place of this one."""
    start = SUMS.index(line)
    number = SUMS[:start].count("\n") + 1
    return Mutant(
        room="tiny",
        file="src/tiny/sums.py",
        digest=digest,
        kind="by hand",
        start=start,
        end=start + len(line),
        replacement=becomes,
        line=number,
        lines=(number, number),
        before=line,
        after=becomes,
    )


def tried(root: Path, becomes: str, *, test: str = TEST) -> Verdict:
    """What becomes of the sums whose first line is another."""
    copy = Copy(a_project(root / "tiny").root, root / "copy", not_fenced)
    return asyncio.run(copy.try_out(a_mutant("print()", becomes), {test: 0.01}))


def a_trial(mutant: Mutant, outcome: str = SURVIVED, *, with_seeds: bool = False) -> Trial:
    return Trial(mutant, outcome, "", 1.0, with_seeds)


def judged(mutant: Mutant, verdict: str) -> Judgements:
    return Judgements([Judgement(mutant.file, mutant.before, mutant.after, verdict, "So it is.")])


# --- trials --------------------------------------------------------------------------------------


def test_a_line_that_a_test_looks_at_is_caught_and_one_that_it_only_runs_survives(tmp_path):
    campaign = a_campaign(tmp_path / "tiny", tmp_path / "kept", count=2)

    campaign.run()

    found = {trial.mutant.before: (trial.outcome, trial.by) for trial in campaign.trials()}
    assert found == {"return number + number": (CAUGHT, TEST), "print()": (SURVIVED, "")}
    for root in (tmp_path / "tiny", tmp_path / "kept/copies/0"):
        assert (root / "src/tiny/sums.py").read_text() == SUMS


def test_a_test_that_does_not_end_is_ended_and_its_mutant_timed_out(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "SECONDS_BESIDES", 1.0)

    verdict = tried(tmp_path, "while True: pass")

    assert (verdict.outcome, verdict.by) == (TIMED_OUT, TEST)


def test_on_a_machine_too_busy_for_the_unbroken_test_a_mutant_has_not_been_tried(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trials, "SECONDS_BESIDES", 1.0)
    test = "from tiny.sums import double\ndef test_four():\n    while True: double(2)\n"
    copy = Copy(a_project(tmp_path / "tiny", test=test).root, tmp_path / "copy", not_fenced)

    verdict = asyncio.run(copy.try_out(a_mutant("print()", "pass"), {TEST: 0.01}))

    assert verdict.outcome == NOT_RUN
    assert "too busy" in verdict.by


@pytest.mark.parametrize(("others", "outcome"), [("", SURVIVED), ("4 == 5", CAUGHT)])
def test_a_test_that_fails_only_once_catches_nothing(tmp_path, others, outcome):
    """Whatever else notices the mutant still counts."""
    fails_once = (
        "from pathlib import Path\n"
        "def test_four():\n"
        f"    seen = Path({str(tmp_path / 'seen')!r})\n"
        "    was_seen = seen.exists()\n"
        "    seen.touch()\n"
        "    assert was_seen\n"
        f"def test_other():\n    assert {others or True}\n"
    )
    copy = Copy(a_project(tmp_path / "tiny", test=fails_once).root, tmp_path / "copy", not_fenced)
    other = TEST.replace("four", "other")

    verdict = asyncio.run(copy.try_out(a_mutant("print()", "pass"), {TEST: 0.01, other: 0.01}))

    assert (verdict.outcome, verdict.by) == (outcome, other if others else "")


def test_a_mutant_that_ends_pytest_itself_is_caught_whatever_the_exit_code(tmp_path):
    verdict = tried(tmp_path, "__import__('os')._exit(0)")

    assert (verdict.outcome, verdict.by) == (CAUGHT, TEST)


def test_a_mutant_that_cannot_even_be_imported_is_caught(tmp_path):
    verdict = tried(tmp_path, "print()\n1 / 0")

    assert (verdict.outcome, verdict.by) == (CAUGHT, "tests/test_sums.py")


def test_a_mutant_whose_tests_are_not_found_has_not_been_tried(tmp_path):
    verdict = tried(tmp_path, "pass", test="tests/test_sums.py::test_gone")

    assert verdict.outcome == NOT_RUN


# --- the rehearsal, and which tests are chosen ---------------------------------------------------


def test_a_test_that_fails_with_nothing_broken_or_is_skipped_is_left_out(tmp_path):
    project = a_project(
        tmp_path / "tiny",
        test="import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 0\n"
        "def test_none(): pytest.skip()\n",
    )
    copy = Copy(project.root, tmp_path / "copy", not_fenced)

    rehearsal = asyncio.run(rehearse(project, [copy], tmp_path / "kept", with_seeds=False))

    assert list(rehearsal.seconds) == ["tests/test_sums.py::test_good"]
    assert rehearsal.failed == ["tests/test_sums.py::test_bad"]


def test_a_rehearsal_is_not_repeated_until_a_source_or_a_test_has_changed(tmp_path):
    project = a_project(tmp_path / "tiny")
    kept = tmp_path / "kept"
    asyncio.run(
        rehearse(project, [Copy(project.root, tmp_path / "1", not_fenced)], kept, with_seeds=False)
    )

    same = Copy(project.root, tmp_path / "2", nothing_may_run)
    asyncio.run(rehearse(project, [same], kept, with_seeds=False))

    (project.root / "tests/test_sums.py").write_text("def test_other(): pass\n")
    other = Copy(project.root, tmp_path / "3", nothing_may_run)
    with pytest.raises(AssertionError, match="a test was run"):
        asyncio.run(rehearse(project, [other], kept, with_seeds=False))


def test_tests_that_cannot_be_run_at_all_are_told_as_that(tmp_path):
    project = a_project(tmp_path / "tiny", test="import nothing_of_that_name\n")
    copy = Copy(project.root, tmp_path / "copy", not_fenced)

    with pytest.raises(CannotRehearse, match=r"the tests cannot be run: .*1 error"):
        asyncio.run(rehearse(project, [copy], tmp_path / "kept", with_seeds=False))


def a_rehearsal(reached: dict[int, set[str]]) -> Rehearsal:
    seconds = {
        "tests/slow.py::a": 5.0,
        "tests/a.py::b": 0.02,
        "tests/a.py::c": 0.01,
        "els/e.py::d": 0,
    }
    return Rehearsal(seconds, (), (), {"src/tiny/sums.py": reached})


def test_the_tests_that_reach_a_line_are_run_cheapest_first():
    reached = {3: {"tests/slow.py::a", "tests/a.py::c", "tests/a.py::gone"}, 4: {"tests/a.py::b"}}

    tests = a_rehearsal(reached).tests_for(a_mutant("print()", "pass"), PLAIN)

    assert list(tests) == ["tests/a.py::c", "tests/slow.py::a"]


def test_a_line_that_runs_at_import_gets_the_tests_that_reach_its_file():
    reached = {3: set(), 4: {"tests/slow.py::a"}}

    tests = a_rehearsal(reached).tests_for(a_mutant("print()", "pass"), PLAIN)

    assert list(tests) == ["tests/slow.py::a"]


@pytest.mark.parametrize("reached", [{}, {3: set()}, {4: {"tests/slow.py::a"}}])
def test_a_line_that_no_test_is_seen_to_reach_gets_all_tests_of_its_room(reached):
    tests = a_rehearsal(reached).tests_for(a_mutant("print()", "pass"), PLAIN)

    assert set(tests) == {"tests/slow.py::a", "tests/a.py::b", "tests/a.py::c"}


def test_where_child_processes_may_reach_a_line_all_tests_of_the_room_come_last():
    room = Room("tiny", ("src/tiny",), ("tests",), has_children=True)

    tests = a_rehearsal({3: {"tests/slow.py::a"}}).tests_for(a_mutant("print()", "pass"), room)

    assert list(tests) == ["tests/slow.py::a", "tests/a.py::c", "tests/a.py::b"]


# --- what is known -------------------------------------------------------------------------------


def test_what_is_known_is_not_tried_again(tmp_path):
    records = Records(tmp_path / "kept/trials.jsonl")
    for mutant in drawn(tmp_path / "tiny")[:2]:
        records.add(a_trial(mutant))
    campaign = a_campaign(tmp_path / "tiny", tmp_path / "kept", nothing_may_run, count=2)

    campaign.run()

    assert [trial.outcome for trial in campaign.trials()] == [SURVIVED, SURVIVED]


@pytest.mark.parametrize("options", [{"again": True}, {"with_seeds": True}, {"fresh": True}])
def test_a_survivor_is_tried_again_if_asked_for_or_if_there_are_more_tests(tmp_path, options):
    Records(tmp_path / "kept/trials.jsonl").add(a_trial(drawn(tmp_path / "tiny")[0]))
    campaign = a_campaign(tmp_path / "tiny", tmp_path / "kept", nothing_may_run, count=1, **options)

    with pytest.raises(AssertionError, match="a test was run"):
        campaign.run()


def test_a_survivor_that_was_judged_is_not_tried_again(tmp_path):
    (mutant,) = drawn(tmp_path / "tiny")[:1]
    Records(tmp_path / "kept/trials.jsonl").add(a_trial(mutant))
    campaign = Campaign(
        a_project(tmp_path / "tiny"),
        Options(count=1, again=True),
        tmp_path / "kept",
        nothing_may_run,
        judgements=judged(mutant, EQUIVALENT),
    )

    campaign.run()

    assert [trial.outcome for trial in campaign.trials()] == [SURVIVED]


def test_nothing_is_known_of_a_mutant_once_its_file_has_changed_in_any_way(tmp_path):
    records = Records(tmp_path / "trials.jsonl")
    records.add(a_trial(a_mutant("print()", "pass")))

    assert records.get(a_mutant("print()", "pass"), with_seeds=False)
    assert not records.get(a_mutant("print()", "pass", digest="e"), with_seeds=False)


def test_a_record_that_was_cut_off_does_not_hide_the_others(tmp_path):
    mutant = a_mutant("print()", "pass")
    Records(tmp_path / "trials.jsonl").add(a_trial(mutant, CAUGHT))
    with open(tmp_path / "trials.jsonl", "a") as file:
        file.write('{"mutant": {"room": "ti')

    found = Records(tmp_path / "trials.jsonl").get(mutant, with_seeds=True)

    assert found == a_trial(mutant, CAUGHT)


# --- judgements and tables -----------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [EQUIVALENT, COSTS_TIME])
def test_a_survivor_that_was_judged_counts_neither_for_nor_against_the_tests(verdict):
    survivor, other = a_mutant("print()", "pass"), a_mutant("print()", "print(1)")
    made = [a_trial(survivor), a_trial(other, CAUGHT)]
    out = Console(file=io.StringIO(), width=200)

    shares = []
    for judgements in (Judgements([]), judged(survivor, verdict)):
        shares.append(list(rooms_table(made, judgements).columns[-1].cells))
        print_survivors(out, made, judgements)

    assert shares == [["50 %"], ["100 %"]]
    assert out.file.getvalue() == "src/tiny/sums.py:3  print() -> pass\n"


def test_survivors_are_written_in_the_form_of_judgements_but_for_the_reasons(tmp_path):
    mutant = a_mutant("print()", 'print("ä\\n")')
    path = tmp_path / "survivors.toml"

    write_unjudged(path, [mutant])
    with pytest.raises(ValueError, match="needs a reason and the verdict"):
        read_judgements(path)
    text = path.read_text().replace('verdict = ""', 'verdict = "equivalent"')
    path.write_text(text.replace('reason = ""', 'reason = "It says so."'))

    assert read_judgements(path).verdict(mutant) == EQUIVALENT


def test_the_judgements_that_are_kept_can_be_read():
    read_judgements(JUDGED)


# --- the fence -----------------------------------------------------------------------------------


def test_broken_code_sees_only_its_own_processes_and_writes_only_to_its_place(tmp_path):
    place, sources = tmp_path / "place", tmp_path / "src"
    place.mkdir()
    sources.mkdir()
    if why := why_no_fence(place, sources):
        pytest.skip(f"no fence here: {why}")
    tries = f"touch {place}/a; touch {tmp_path}/b; kill -0 {os.getpid()}"

    done = subprocess.run([*fenced(place, sources), "sh", "-c", tries], capture_output=True)

    assert done.returncode == 1  # there is no process of that number
    assert (place / "a").exists()
    assert not (tmp_path / "b").exists()
