"""``dataward reproduce``: lists, repeats and judges experiments, and can be interrupted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.conftest import Dataward
from dataward.api import all_cores
from dataward.cli import reproducing
from dataward.cli.exit_codes import ExitCode
from dataward.reproduce import experiment
from dataward.reproduce.cells import CellValues, Numbers
from dataward.reproduce.registry import EXPERIMENTS
from dataward.strategies.registry import STRATEGIES


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cores, "cores_here", lambda: 1)


def test_alone_it_lists_every_experiment_with_a_line(dataward: Dataward) -> None:
    said = dataward("reproduce")

    assert said.code == ExitCode.OK
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert EXPERIMENTS["adage-3"].title in lines[0]


def test_the_list_as_json_tells_what_is_missing(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "STRATEGIES", {})

    listed = {each["experiment"]: each for each in json.loads(dataward("reproduce", "--json").out)}

    assert listed["adage-3"]["missing_strategies"] == ["adage", "matrix", "albatross"]
    assert listed["adage-3"]["cells"] == 3 * (5 * 8 * 3 + 1 + 4 * 3)
    assert listed["matrix-12"]["missing_strategies"] == []


def test_it_prints_each_claim_and_writes_the_page(dataward: Dataward) -> None:
    said = dataward("reproduce", "worker-1", "--quick", "-o", "out")

    assert said.code == ExitCode.OK
    assert "holds: Roughly 90% of files are read by 6 or more tasks." in said.out
    assert "paper: 90%; here: 88%" in said.out
    assert "out/report.md has the figures." in said.out
    assert "1 of 1 cell" in said.err
    assert {"report.md", "worker-1.csv", "worker-1.svg", "worker-1.png", "cells.jsonl"} == {
        path.name for path in Path("out").iterdir()
    }


def test_as_json_it_prints_claims_and_verdicts(dataward: Dataward) -> None:
    said = dataward("reproduce", "worker-1,matrix-12", "--quick", "--json")

    bound, coadd = json.loads(said.out)
    assert (bound["experiment"], coadd["experiment"]) == ("matrix-12", "worker-1")
    assert coadd["figures"] == ["worker-1"]
    assert coadd["claims"][0] == {
        "statement": "Roughly 90% of files are read by 6 or more tasks.",
        "paper": "90%",
        "ours": "88%",
        "verdict": "holds",
        "reason": "",
    }
    assert Path("reproduction/report.md").exists()


def test_a_second_time_it_says_what_was_kept(dataward: Dataward) -> None:
    dataward("reproduce", "matrix-12", "--quick")

    said = dataward("reproduce", "matrix-12", "--quick")

    assert "16 of 16 cells, 16 of them kept from before" in said.err


def test_an_unknown_experiment_is_one_sentence(dataward: Dataward) -> None:
    said = dataward("reproduce", "adage-33")

    assert said.code == ExitCode.USAGE
    assert said.err.startswith("dataward: no experiment is called 'adage-33'; there are all, ")
    assert len(said.err.splitlines()) == 1


def test_an_experiment_that_lacks_its_strategies_is_one_sentence(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: s for name, s in STRATEGIES.items() if name != "adage"}
    known |= dict.fromkeys(("matrix", "albatross"), STRATEGIES["adage"])
    monkeypatch.setattr(experiment, "STRATEGIES", known)

    said = dataward("reproduce", "adage-6")

    assert said.code == ExitCode.USAGE
    assert said.err == "dataward: adage-6 needs strategies that do not exist: adage\n"
    assert not Path("reproduction").exists()


def test_all_does_what_can_be_done_and_tells_the_rest(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "STRATEGIES", {})

    said = dataward("reproduce", "all", "--quick")

    assert said.code == ExitCode.OK
    assert "not done: needs strategies that do not exist: adage, matrix, albatross" in said.out
    assert Path("reproduction/matrix-12.svg").exists()
    assert Path("reproduction/worker-1.svg").exists()
    assert not Path("reproduction/adage-3.svg").exists()


def test_an_interrupted_one_says_how_to_go_on(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(reproducing.Reproduction):
        def run(self, on_jobs):  # type: ignore[no-untyped-def]
            on_jobs([])
            raise KeyboardInterrupt

    monkeypatch.setattr(reproducing, "Reproduction", Interrupted)

    said = dataward("reproduce", "worker-1", "-o", "out")

    assert said.code == ExitCode.INTERRUPTED
    assert "0 of 0 cells are kept in out: the same command goes on from there" in said.err


def test_a_cell_that_fails_fails_the_command(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(values: CellValues) -> Numbers:
        raise ZeroDivisionError("oh")

    one = EXPERIMENTS["worker-1"]
    monkeypatch.setitem(
        EXPERIMENTS, "worker-1", replace(one, study=replace(one.study, measure=fail))
    )

    said = dataward("reproduce", "worker-1", "--quick")

    assert said.code == ExitCode.FAILED
    assert "ZeroDivisionError: oh" in said.err
    assert "not done: tasks 600, pairs 1000: ZeroDivisionError: oh" in said.out
