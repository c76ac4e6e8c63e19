"""What holds for every strategy: all workflows end, under faults and for real."""

import os
from pathlib import Path

import pytest

from dataward import read_workflow, run, write_workflow
from dataward.generate import generate, make_runnable, write_inputs
from dataward.generate.registry import SHAPES
from dataward.model.platform import uniform_platform
from dataward.model.workflow import Workflow
from dataward.sim.campaign import impatient, run_trial, small_cluster
from dataward.sim.faults import parse_faults
from dataward.sim.odd_workflows import odd_workflow
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES
from runs.real_runs import hashes

SHARED = Path(__file__).parents[3] / "shared" / "workflows"
FILES = sorted(str(p.relative_to(SHARED)) for p in SHARED.glob("*/*") if p.is_file())
STEP = 15  # every strategy simulates one file in so many, and another than the strategy before it
ODD = 8  # odd workflows for each strategy
NAMES = list(STRATEGIES)
TASKS = int(os.environ.get("DATAWARD_MONTAGE", "30"))  # of the Montage that is run for real


def a_trial(workflow: Workflow, name: str, faults: str, seed: int) -> None:
    strategy = impatient(STRATEGIES[name], seed)
    trial = run_trial(workflow, small_cluster(seed), strategy, parse_faults(faults), seed)
    assert trial.outcome.complete + trial.outcome.failed == len(workflow)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_ends_in_fair_weather_or_under_faults(name: str) -> None:
    """In turns: half of the strategies have a family in fair weather, the others under faults."""
    for number, shape in enumerate(SHAPES):
        faults = ("none", "chaos")[(NAMES.index(name) + number) % 2]
        a_trial(generate(shape, 30, seed=number), name, faults, seed=number)


@pytest.mark.parametrize("name", NAMES)
def test_odd_workflows_end_under_faults(name: str) -> None:
    for seed in range(ODD):
        a_trial(odd_workflow(seed), name, "chaos", seed)


@pytest.mark.skipif(not FILES, reason="the shared workflows are not beside this project")
@pytest.mark.parametrize("name", NAMES)
def test_real_files_are_simulated_to_their_end(name: str) -> None:
    for file in FILES[NAMES.index(name) % STEP :: STEP]:
        workflow = read_workflow(SHARED / file)
        platform = uniform_platform(5, cores=max(4, int(workflow.cores.max())))
        simulation = Simulation(workflow, platform, STRATEGIES[name], time_limit_seconds=1e9)

        outcome = simulation.run()

        assert (outcome.complete, outcome.failed) == (len(workflow), 0), file


# --- for real ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def montage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Montage with next to no work, and small files."""
    place = tmp_path_factory.mktemp("montage")
    workflow = make_runnable(generate("montage", TASKS, seed=3), time_scale=0, data_scale=1e-5)
    write_workflow(workflow, place / "montage.json")
    write_inputs(workflow, place / "montage.inputs")
    return place / "montage.json"


@pytest.fixture(scope="module")
def made_by_adage(montage: Path) -> dict[str, str]:
    run(montage, slots=2, out=montage.parent / "plain.run")
    return hashes(montage.parent / "plain.run" / "outputs")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_files_are_made_for_real(
    name: str, montage: Path, made_by_adage: dict[str, str], tmp_path: Path
) -> None:
    report = run(montage, nodes=3, slots=1, strategy=name, out=tmp_path / "montage.run")

    assert report.is_complete
    assert report.summary.complete == TASKS
    assert hashes(tmp_path / "montage.run" / "outputs") == made_by_adage
