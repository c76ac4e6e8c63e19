"""`dataward simulate`: a table for people, JSON for programs, and events for other commands."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from builders import a_diamond
from cli.conftest import Dataward
from dataward import write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import RunEnded, RunStarted
from dataward.reports.event_file import EventFileReader
from dataward.sim.simulation import Simulation, Stuck
from dataward.strategies.registry import STRATEGIES

KEYS = [
    "strategy", "nodes", "makespan_seconds", "lower_bound_seconds", "utilisation", "bytes_moved",
    "locality", "replicas_run", "replicas_wasted", "messages", "events", "wall_seconds",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _workflows(_a_plain_place: None) -> None:
    write_workflow(a_diamond(), "diamond.json")
    write_workflow(generate("montage", 30, seed=1), "montage.json")


# --- results -------------------------------------------------------------------------------------


def test_json_has_the_promised_keys_first(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--nodes", "4", "--json")

    assert said.code == ExitCode.OK
    (row,) = json.loads(said.out)
    assert list(row)[: len(KEYS)] == KEYS
    assert (row["strategy"], row["nodes"]) == ("dataward", 4)
    assert row["makespan_seconds"] >= row["lower_bound_seconds"] > 0
    assert 0 < row["utilisation"] <= 1
    assert 0 <= row["locality"] <= 1
    assert (row["tasks"], row["complete"], row["failed"], row["seed"]) == (30, 30, 0, 0)
    assert row["events"] > row["tasks"]
    assert row["messages"] > 0


def test_several_strategies_are_several_rows(dataward: Dataward) -> None:
    names = ["adage", "adage-no-giving", "adage-random"]

    said = dataward("simulate", "montage.json", "--strategy", ",".join(names), "--json")

    assert sorted(row["strategy"] for row in json.loads(said.out)) == names


def test_the_table_has_a_column_for_each_strategy(dataward: Dataward) -> None:
    said = dataward(
        "simulate", "montage.json", "--nodes", "4", "--strategy", "adage,adage-random",
    )  # fmt: skip

    assert said.code == ExitCode.OK
    assert "montage" in said.out.splitlines()[0]
    assert "30 tasks on 4 nodes, 16 cores; seed 0, faults none" in said.out
    for row in (
        "makespan", "speed-up", "utilisation", "bytes moved", "input bytes found locally",
        "replicas run", "messages", "lower bound",
    ):  # fmt: skip
        assert row in said.out
    assert "adage-random" in said.out
    assert "No schedule can beat" in said.out


def test_rows_about_trouble_are_shown_only_if_there_was_some(dataward: Dataward) -> None:
    plain = dataward("simulate", "montage.json", "--nodes", "4")
    troubled = dataward("simulate", "montage.json", "--nodes", "4", "--faults", "crash=1")

    assert "crashes " not in plain.out
    assert "crashes " in troubled.out
    assert "faults crash=1" in troubled.out


@pytest.mark.parametrize("estimates", ["exact", "unknown", "0.5"])
def test_it_is_said_how_good_estimates_were(dataward: Dataward, estimates: str) -> None:
    options = ["simulate", "montage.json", "--nodes", "4", "--estimates", estimates]

    table, said = dataward(*options), dataward(*options, "--json")

    assert f"faults none, estimates {estimates}" in table.out
    assert json.loads(said.out)[0]["estimates"] == estimates


def test_estimates_that_are_none_are_refused_before_anything_runs(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--estimates", "good")

    assert said.code == ExitCode.USAGE
    assert "'good' says not how good estimates are" in said.err


def test_the_same_seed_gives_the_same_numbers(dataward: Dataward) -> None:
    def rows(seed: int) -> list[dict[str, object]]:
        said = dataward(
            "simulate",
            "montage.json",
            "--faults",
            "chaos",
            "--seed",
            seed,
            "--nodes",
            "8",
            "--json",
        )
        found: list[dict[str, object]] = json.loads(said.out)
        for row in found:
            del row["wall_seconds"]
        return found

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


def test_settings_change_the_run(dataward: Dataward) -> None:
    def replicas(*options: str) -> int:
        said = dataward(
            "simulate", "montage.json", "--nodes", "4", "--cores", "1", "--strategy", "adage",
            *options, "--json",
        )  # fmt: skip
        return int(json.loads(said.out)[0]["replicas_run"])

    assert replicas() > 0
    assert replicas("--set", "backups_max=0") == 0
    assert replicas("--set", "replication=off") == 0


def test_faults_are_counted(dataward: Dataward) -> None:
    said = dataward(
        "simulate", "montage.json", "--nodes", "4", "--faults", "crash=0.5,crash_seconds=5",
        "--set", "lease_seconds=10", "--set", "validation_seconds=5", "--seed", "1", "--json",
    )  # fmt: skip

    (row,) = json.loads(said.out)
    assert row["crashes"] == 2
    assert row["complete"] == 30


def test_more_nodes_and_bandwidth_help(dataward: Dataward) -> None:
    def makespan(*options: str) -> float:
        said = dataward("simulate", "montage.json", *options, "--json")
        return float(json.loads(said.out)[0]["makespan_seconds"])

    assert makespan("--nodes", "8") < makespan("--nodes", "1", "--cores", "1")
    slow = makespan("--nodes", "2", "--bandwidth", "1Mbps")
    assert makespan("--nodes", "2", "--bandwidth", "1Gbps") < slow


def test_inputs_spread_everywhere_are_local(dataward: Dataward) -> None:
    said = dataward(
        "simulate", "diamond.json", "--nodes", "1", "--inputs", "spread", "--copies", "1", "--json"
    )

    (row,) = json.loads(said.out)
    assert (row["locality"], row["bytes_moved"]) == (1.0, 0)


def test_a_platform_file_takes_the_place_of_equal_nodes(dataward: Dataward) -> None:
    Path("two.yaml").write_text("nodes: [{name: big, cores: 8}, {name: small, cores: 1}]")

    said = dataward("simulate", "montage.json", "--platform", "two.yaml", "--json")

    (row,) = json.loads(said.out)
    assert (row["nodes"], row["cores"]) == (2, 9)


@pytest.mark.parametrize(
    "option",
    [("--nodes", "3"), ("--cores", "2"), ("--bandwidth", "1MB/s"), ("--inputs", "dealt")],
)
def test_what_a_platform_file_says_is_not_given_beside_it(
    dataward: Dataward, option: tuple[str, str]
) -> None:
    Path("two.yaml").write_text("nodes: [{name: big, cores: 8}, {name: small, cores: 1}]")

    said = dataward("simulate", "montage.json", "--platform", "two.yaml", *option)

    assert said.code == ExitCode.USAGE
    assert f"leave out {option[0]}" in said.err


def test_copies_are_of_inputs_on_nodes(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--copies", "2")

    assert said.code == ExitCode.USAGE
    assert "--inputs spread or dealt" in said.err


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--events", "--plot"])
def test_what_is_written_does_not_replace_the_workflow(dataward: Dataward, option: str) -> None:
    before = Path("montage.json").read_bytes()

    said = dataward("simulate", "montage.json", option, "./montage.json")

    assert said.code == 2
    assert "is the workflow itself" in said.err
    assert Path("montage.json").read_bytes() == before


def test_events_and_plot_are_not_written_into_one_file(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--events", "run", "--plot", "./run")

    assert (said.code, said.err) == (2, "dataward: run is to be written twice; name two files\n")
    assert not Path("run").exists()


def test_events_are_written_and_can_be_read(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--events", "run.events", "--json")

    events = list(EventFileReader(Path("run.events")))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    (row,) = json.loads(said.out)
    assert len(events) == row["events"]
    assert events[-1].at == row["makespan_seconds"]
    assert "wrote run.events" in said.err


def test_a_plot_is_an_svg_that_names_the_run(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--nodes", "4", "--plot", "run.svg")

    assert said.code == ExitCode.OK
    root = ElementTree.parse("run.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = "".join(root.itertext())
    assert "dataward" in text
    assert "n0" in text


def test_events_of_a_crashing_run_can_be_plotted_and_traced(dataward: Dataward) -> None:
    dataward(
        "simulate", "montage.json", "--nodes", "4", "--faults", "chaos", "--seed", "3",
        "--events", "run.events", "--plot", "run.svg",
    )  # fmt: skip
    said = dataward("trace", "run.events", "-o", "trace.json")

    assert said.code == ExitCode.OK
    assert json.loads(Path("trace.json").read_text())
    ElementTree.parse("run.svg")


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--strategy", "best"], "there are dataward, adage, adage-no-order"),
        (["--strategy", ","], "there are dataward, adage"),
        (["--faults", "bad-luck"], "there are none, crashes, stragglers, chaos, crash=..."),
        (["--faults", "crash"], "there are none"),
        (["--faults", "crash=often"], "takes a number, not 'often'"),
        (["--faults", "crash=-1"], "cannot be negative"),
        (["--faults", "partitions=0.5"], "takes a number"),
        (["--set", "speed=3"], "there are lease_seconds"),
        (["--set", "replication"], "NAME=VALUE, as replication=true"),
        (["--set", "replication=perhaps"], "at present it is true"),
        (["--set", "backups_max=many"], "at present it is 2"),
        (["--set", "backups_max=-1"], "0 or more"),
        (["--set", "lease_seconds=nan"], "0 or more"),
        (["--set", "neighbourhood=far"], "at present it is dynamic"),
        (["--bandwidth", "fast"], "such as 1Gbps"),
        (["--nodes", "0"], "--nodes"),
        (["--cores", "0"], "--cores"),
        (["--copies", "0"], "--copies"),
        (["--inputs", "nowhere"], "spread"),
        (["--strategy", "adage,adage-random", "--events", "e"], "give one strategy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_value_says_what_would_do(
    dataward: Dataward, options: list[str], remedy: str
) -> None:
    said = dataward("simulate", "diamond.json", "--strategy", "adage", *options)

    assert said.code == ExitCode.USAGE
    assert remedy in " ".join(said.err.split())
    assert not said.out
    assert "Traceback" not in said.err


def test_a_workflow_too_wide_for_every_node_is_refused(dataward: Dataward) -> None:
    wf = WorkflowBuilder("wide")
    wf.task("wide", runtime_seconds=1.0, cores=8)
    write_workflow(wf.build(), "wide.json")

    fits = dataward("simulate", "wide.json")  # nodes are as wide as they must be
    said = dataward("simulate", "wide.json", "--cores", "4")

    assert fits.code == ExitCode.OK
    assert said.code == ExitCode.USAGE
    assert "needs 8 cores" in said.err


@pytest.mark.parametrize("how", [("--strategy", "peercomp"), ("--deadline", "1h")])
def test_a_million_nodes_with_promises_are_for_another_command(
    dataward: Dataward, how: tuple[str, str]
) -> None:
    said = dataward("simulate", "diamond.json", "--nodes", "1000000", *how)

    assert said.code == ExitCode.USAGE
    assert "dataward deadlines --nodes 1000000" in said.err


def test_a_bad_workflow_or_platform_is_bad_input(dataward: Dataward) -> None:
    Path("bad.yaml").write_text("nodes: [{name: n, colour: red}]")

    for arguments in (
        ["nowhere.json"],
        ["diamond.json", "--platform", "nowhere.yaml"],
        ["diamond.json", "--platform", "bad.yaml"],
    ):
        said = dataward("simulate", *arguments)
        assert said.code == ExitCode.BAD_INPUT
        assert arguments[-1] in said.err


@pytest.mark.parametrize("option", ["--events", "--plot"])
def test_a_place_that_cannot_be_written_to_is_told(dataward: Dataward, option: str) -> None:
    said = dataward("simulate", "diamond.json", option, "diamond.json/run")

    assert said.code == ExitCode.CANNOT_WRITE
    assert "diamond.json/run" in said.err


def test_a_workflow_whose_tasks_take_no_time_is_simulated(dataward: Dataward) -> None:
    wf = WorkflowBuilder("instant")
    wf.task("a", outputs=["x"])
    wf.task("b", inputs=["x"])
    write_workflow(wf.build(), "instant.json")

    for_people = dataward("simulate", "instant.json")
    for_programs = dataward("simulate", "instant.json", "--json")

    assert "No schedule can beat 0 s here." in for_people.out
    (row,) = json.loads(for_programs.out)
    assert (row["complete"], row["lower_bound_seconds"]) == (2, 0.0)


def test_tasks_can_be_removed_at_a_time(dataward: Dataward) -> None:
    asked = ("--remove", "left@1.5s", "--remove", "split@2h", "--nodes", "2")

    for_people = dataward("simulate", "diamond.json", *asked)
    for_programs = dataward("simulate", "diamond.json", *asked, "--json")

    assert for_people.code == ExitCode.OK
    assert re.search(r"^tasks removed +2$", for_people.out, re.MULTILINE)
    assert re.search(r"^over the lower bound +-$", for_people.out, re.MULTILINE)
    assert "No schedule of all tasks can beat" in for_people.out
    assert "dataward: split had ended by 2 h 00 min; it was not removed" in for_people.err
    (row,) = json.loads(for_programs.out)
    assert (row["complete"], row["failed"], row["removed"]) == (2, 0, 2)


@pytest.mark.parametrize(
    ("removal", "problem"),
    [
        ("left", "'left' does not say when: write TASK@SECONDS"),
        ("lft@3", "has no task 'lft'; did you mean 'left'?"),
        ("left@soon", "'soon' is not a duration"),
    ],
)
def test_a_removal_that_makes_no_sense_is_refused(
    removal: str, problem: str, dataward: Dataward
) -> None:
    said = dataward("simulate", "diamond.json", "--remove", removal)

    assert said.code in (ExitCode.USAGE, ExitCode.BAD_INPUT)
    assert problem in said.err


def test_a_simulation_that_does_not_end_is_our_fault_and_names_its_seed(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_ends(simulation: Simulation) -> None:
        raise Stuck(simulation.seed, 3000.0, ended=3, tasks=4)

    monkeypatch.setattr(Simulation, "run", never_ends)

    said = dataward("simulate", "diamond.json", "--seed", "7")

    assert said.code == ExitCode.FAILED
    assert "seed 7: after 3000 simulated seconds only 3 of 4 tasks are finished" in said.err
    assert "this is a fault of dataward: please report it" in said.err


def test_four_strategies_are_all_shown_on_a_narrow_terminal(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    write_workflow(a_diamond(), "diamond.json")

    four = "adage,adage-random,adage,adage-random"
    lines = dataward("simulate", "diamond.json", "--strategy", four).out.splitlines()

    headings = [line.split() for line in lines if line.strip().startswith("adage")]
    shown = [name for heading in headings for name in heading]
    assert sorted(shown) == sorted(four.split(","))  # best first
    assert len([line for line in lines if line.startswith("makespan")]) == len(headings) == 2
    assert "(too wide for this terminal: the columns go on below)" in lines


def test_all_strategies_are_compared_best_first(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--nodes", "4", "--strategy", "all", "--json")

    results = json.loads(said.out)
    assert {result["strategy"] for result in results} == set(STRATEGIES)
    makespans = [result["makespan_seconds"] for result in results]
    assert makespans == sorted(makespans)


def test_more_strategies_than_fit_side_by_side_are_rows(dataward: Dataward) -> None:
    names = list(STRATEGIES)[:5]

    said = dataward("simulate", "montage.json", "--nodes", "4", "--strategy", ",".join(names))

    assert sorted(line.split()[0] for line in said.out.splitlines()[2:7]) == sorted(names)


def test_several_strategies_are_drawn_one_above_the_other(dataward: Dataward) -> None:
    dataward(
        "simulate", "montage.json", "--nodes", "4", "--strategy", "adage,workqueue",
        "--plot", "both.svg",
    )  # fmt: skip

    drawn = Path("both.svg").read_text()
    assert ">adage<" in drawn
    assert ">workqueue<" in drawn


def test_a_setting_of_one_of_several_strategies_is_left_out_for_the_others(
    dataward: Dataward,
) -> None:
    said = dataward(
        "simulate", "montage.json", "--strategy", "adage,workqueue", "--set", "neighbours=2"
    )

    assert said.code == ExitCode.OK


# --- the forecast --------------------------------------------------------------------------------


def test_what_estimates_made_one_expect_is_said_beside_the_makespan(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--nodes", "2", "--estimates", "0.3")

    assert re.search(r"By the estimates it should have taken .* in 9 of 10 cases", said.out)


def test_nothing_is_forecast_from_nothing_and_exact_run_times_need_no_forecast(
    dataward: Dataward,
) -> None:
    unknown = dataward("simulate", "montage.json", "--nodes", "2", "--estimates", "unknown")
    exact = dataward("simulate", "montage.json", "--nodes", "2")

    assert "Too little was known beforehand to say when it would end." in unknown.out
    assert "should have taken" not in exact.out


def test_json_has_the_forecast(dataward: Dataward) -> None:
    said = dataward("simulate", "montage.json", "--nodes", "2", "--estimates", "0.3", "--json")

    (row,) = json.loads(said.out)
    low, high = row["forecast"]["low_seconds"], row["forecast"]["high_seconds"]
    assert 0 < low < row["forecast"]["seconds"] < high


def test_several_strategies_end_with_the_best(dataward: Dataward) -> None:
    several = dataward("simulate", "montage.json", "--strategy", "adage,random", "--nodes", "4")
    one = dataward("simulate", "montage.json", "--nodes", "4")

    assert re.search(r"(is|are|are equally) (best|good) here", several.out.splitlines()[-1])
    assert "best here" not in one.out


def test_a_deadline_is_answered_before_and_after(dataward: Dataward) -> None:
    dataward("generate", "montage", "--tasks", "40", "-o", "m.json")

    fits = dataward("simulate", "m.json", "--nodes", "2", "--deadline", "1h")
    refused = dataward("simulate", "m.json", "--nodes", "2", "--deadline", "10s")

    assert fits.code == ExitCode.OK
    assert "accepted: will end by " in fits.out
    assert "kept: ended " in fits.out
    assert refused.code == ExitCode.REFUSED
    assert "the deadline is shorter than the critical path" in refused.out


def test_a_deadline_is_in_json_too(dataward: Dataward) -> None:
    dataward("generate", "montage", "--tasks", "40", "-o", "m.json")

    (fits,) = json.loads(dataward("simulate", "m.json", "--deadline", "1h", "--json").out)
    (refused,) = json.loads(dataward("simulate", "m.json", "--deadline", "1s", "--json").out)

    assert fits["strategy"] == "peercomp"
    assert fits["answer"]["accepted"] is True
    assert fits["deadline"]["kept"] is True
    assert refused["state"] == "refused"
    assert refused["earliest_seconds"] > 1.0
