"""`dataward seeds`: a failing seed fails the command and says how to see it again."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from cli.conftest import Dataward
from dataward.cli import seed_trials, seeds
from dataward.cli.exit_codes import ExitCode
from dataward.cli.seed_trials import Verdict, workflow_of
from dataward.cli.seed_workflows import Workflows
from dataward.sim.healing import Healing

HEALING = Healing(repeated=2, waited_seconds=0.5)


@pytest.fixture
def _every_third_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def try_seed(seed: int, name: str, faults: str, workflows: Workflows) -> Verdict:
        problem = "" if seed % 3 else "InvariantBroken: t1 was committed twice"
        return Verdict(seed, name, "montage", problem, checks=10, faults=2, healing=HEALING)

    def in_this_process(
        chosen: list[tuple[int, str]], faults: str, workflows: Workflows
    ) -> Iterator[Verdict]:
        return (try_seed(seed, name, faults, workflows) for seed, name in chosen)

    monkeypatch.setattr(seed_trials, "try_seed", try_seed)
    monkeypatch.setattr(seed_trials, "verdicts_of", in_this_process)


def test_a_seed_that_holds_is_counted(dataward: Dataward) -> None:
    said = dataward("seeds", "--seed", "1", "--faults", "crashes")

    assert said.code == ExitCode.OK
    assert "1 of 1 seeds hold under crashes" in said.out
    assert not said.err


def test_seeds_run_on_all_cores_in_order(dataward: Dataward) -> None:
    said = dataward("seeds", "-n", "3", "--first", "5", "--faults", "none")

    assert said.code == ExitCode.OK
    assert "3 of 3 seeds hold under none" in said.out


@pytest.mark.usefixtures("_every_third_fails")
def test_a_failing_seed_fails_the_command_and_can_be_replayed(dataward: Dataward) -> None:
    faults = "chaos,crash=0.3,partitions=4,partition_seconds=200"  # a command to copy, in one line

    said = dataward("seeds", "-n", "4", "--first", "2", "--faults", faults)

    assert said.code == ExitCode.FAILED
    assert "seed 3 (montage): InvariantBroken: t1 was committed twice" in said.err
    assert f"replay: dataward seeds --seed 3 --faults {faults}\n" in said.err
    assert "seed 4" not in said.err
    assert f"3 of 4 seeds hold under {faults}: 8 faults, 40 checks" in said.out


@pytest.mark.usefixtures("_every_third_fails")
def test_every_strategy_tries_every_seed_and_a_replay_names_it(dataward: Dataward) -> None:
    said = dataward("seeds", "-n", "2", "--first", "2", "--strategy", "dataward,workqueue")

    assert "2 of 4 seeds hold" in said.out
    assert "replay: dataward seeds --seed 3 --faults chaos\n" in said.err
    assert "replay: dataward seeds --seed 3 --faults chaos --strategy workqueue\n" in said.err


@pytest.mark.usefixtures("_every_third_fails")
def test_json_has_every_failing_seed(dataward: Dataward) -> None:
    said = dataward("seeds", "-n", "60", "--json")

    assert said.code == ExitCode.FAILED
    document = json.loads(said.out)
    assert (document["faults"], document["seeds"], document["failed"]) == ("chaos", 60, 20)
    assert [verdict["seed"] for verdict in document["verdicts"]] == list(range(0, 60, 3))


def test_without_faults_nothing_heals(dataward: Dataward) -> None:
    said = dataward("seeds", "--seed", "6", "--faults", "none")

    assert said.out.splitlines()[-1] == "healing: none"


@pytest.mark.usefixtures("_every_third_fails")
def test_healing_is_totalled_beside_theverdicts_of(dataward: Dataward) -> None:
    text = dataward("seeds", "-n", "3", "--faults", "crashes")
    document = json.loads(dataward("seeds", "-n", "3", "--json").out)

    assert text.out.splitlines()[-1] == "healing: repeated 6, waited seconds 2"
    assert document["healing"]["repeated"] == 6
    assert document["healing"]["waited_seconds"] == 1.5


@pytest.mark.usefixtures("_every_third_fails")
def test_the_text_shows_only_the_first_few(dataward: Dataward) -> None:
    said = dataward("seeds", "-n", "60")

    assert said.err.count("replay:") == seeds.SHOWN


def test_whatever_goes_wrong_in_a_trial_is_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(seed_trials, "run_trial", break_down)

    assert seed_trials.try_seed(7, "adage", "none").problem == "ZeroDivisionError: oh"


def test_a_fault_nobody_knows_is_refused_before_anything_runs(dataward: Dataward) -> None:
    said = dataward("seeds", "--faults", "gremlins")

    assert said.code == ExitCode.USAGE
    assert "no fault is called 'gremlins'; there are none, crashes" in " ".join(said.err.split())


def test_seeds_alternate_between_applications_and_odd_workflows_unless_told_otherwise() -> None:
    def names(workflows: Workflows) -> list[str]:
        return [workflow_of(seed, workflows).name.partition("-")[0] for seed in range(6)]

    assert names(Workflows.MIXED)[1::2] == ["odd"] * 3
    assert "odd" not in names(Workflows.MIXED)[0::2]
    assert names(Workflows.ODD) == ["odd"] * 6
    assert "odd" not in names(Workflows.APPLICATIONS)


@pytest.mark.usefixtures("_every_third_fails")
def test_a_failing_seed_is_replayed_with_the_same_workflows(dataward: Dataward) -> None:
    said = dataward("seeds", "-n", "1", "--first", "3", "--workflows", "odd")

    assert "replay: dataward seeds --seed 3 --faults chaos --workflows odd" in said.err


def test_processes_that_try_seeds_do_not_hear_ctrl_c() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with seed_trials.deaf_to_ctrl_c():
            blocked = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, [])

        assert signal.SIGINT in blocked.result()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
