"""`dataward seeds --exhaustive`: counts by kind of fault, and a command for each failing world."""

import json

import pytest

from cli.conftest import Dataward
from dataward.cli import exhaustive
from dataward.cli.exit_codes import ExitCode
from dataward.sim.fault_pairs import single_faults
from dataward.sim.script import PointFault
from dataward.sim.small_worlds import SmallWorld, Tried, parse_world, try_world


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one single fault in 150 is tried."""
    monkeypatch.setattr(exhaustive, "single_faults", lambda calm: single_faults(calm)[::150])


def some_fail(world: SmallWorld, faults: tuple[PointFault, ...] = ()) -> Tried:
    tried = try_world(world, faults)
    bad = str(tried).endswith("call@51")
    return Tried(world, tried.faults, "Stuck: oh" if bad else "", tried.struck, tried.ended)


@pytest.mark.usefixtures("_few")
def test_worlds_are_counted_by_the_kinds_of_their_faults(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    said = dataward("seeds", "--exhaustive", "--world", "diamond,2", "--minutes", "0")

    assert said.code == ExitCode.OK
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["first", "alone", "call", "answer", "message", "double", "crash",
                        "restart", "forget", "remove", "leave", "join"]  # fmt: skip
    alone = [int(line[1]) for line in lines[1:-1]]
    assert [line[0] for line in lines[1:3]] == ["call", "answer"]
    assert sum(alone) == int(lines[-1][lines[-1].index("single") - 1])
    assert f"{sum(alone) + 1} of {sum(alone) + 1} small worlds hold" in said.out
    assert " 0 of " in said.out.splitlines()[-1]  # pairs


@pytest.mark.usefixtures("_few")
def test_pairs_follow_for_some_time(dataward: Dataward) -> None:
    said = dataward("seeds", "--exhaustive", "--world", "diamond,2", "--minutes", "0.01", "--json")

    assert said.code == ExitCode.OK
    document = json.loads(said.out)
    pairs = sum(count for kinds, count in document["kinds"].items() if "+" in kinds)
    assert 0 < pairs < document["pairs_possible"]
    assert document["worlds"] == sum(document["kinds"].values())
    assert (document["failed"], document["verdicts"]) == (0, [])


def test_a_world_is_replayed_with_its_faults(dataward: Dataward) -> None:
    said = dataward("seeds", "--exhaustive", "--world", "fan,2,answer@17+crash n1@140")

    assert said.code == ExitCode.OK
    assert said.out == "fan,2,answer@17+crash n1@140 holds\n"


def test_a_failing_world_fails_the_command_and_can_be_replayed(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exhaustive, "try_world", some_fail)

    said = dataward("seeds", "--exhaustive", "--world", "diamond,2,call@51")
    document = json.loads(dataward("seeds", "--world", "diamond,2,call@51", "--json").out)

    assert said.code == ExitCode.FAILED
    assert "diamond,2,call@51: Stuck: oh" in said.err
    assert "replay: dataward seeds --exhaustive --world 'diamond,2,call@51'\n" in said.err
    assert document["verdicts"] == [{"world": "diamond,2,call@51", "problem": "Stuck: oh"}]


def test_a_world_that_fails_without_faults_is_reported_and_not_tried_further(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(world: SmallWorld) -> Tried:
        return Tried(world, (), "Stuck: oh")

    monkeypatch.setattr(exhaustive, "try_world", fail)

    said = dataward("seeds", "--exhaustive", "--world", "diamond,2")

    assert said.code == ExitCode.FAILED
    assert "diamond,2: Stuck: oh" in said.err
    assert "0 of 1 small worlds hold" in said.out


def test_a_world_nobody_knows_is_refused(dataward: Dataward) -> None:
    said = dataward("seeds", "--world", "cube,2")

    assert said.code == ExitCode.USAGE
    assert "no small world begins 'cube,2'" in " ".join(said.err.split())


def test_chunks_are_tried_in_their_order() -> None:
    worlds = [parse_world(f"diamond,2,call@{point}") for point in (9, 3, 5)]

    tried = exhaustive._try_chunk(worlds)

    assert [one.faults for one in tried] == [faults for _, faults in worlds]
