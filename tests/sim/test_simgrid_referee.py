"""An outside referee: our completion times against SimGrid's, on platforms neither has seen."""

import json
import os
import random
import subprocess
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

import pytest

from dataward.sim.network_flows import FlowNetwork

SYSTEM_PYTHON = "/usr/bin/python3"
REFEREE = Path(__file__).parent / "simgrid_referee.py"


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """A flow to be started at a given time; sizes are whole bytes, as SimGrid wants them."""

    links: tuple[int, ...]
    start: float
    size: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Links by capacity, and the flows that will cross them."""

    capacity: tuple[float, ...]
    flows: tuple[PlannedFlow, ...]


def a_problem(seed: int) -> Problem:
    """Nodes on one to three sites; up and down links apart; a backbone each way between sites."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 12)
    sites = rng.randint(1, 3)
    capacity: list[float] = []

    def a_link(*choices: float) -> int:
        capacity.append(rng.choice((*choices, rng.uniform(min(choices), max(choices)))))
        return len(capacity) - 1

    up = [a_link(1.25e8, 1.25e9) for _ in range(nodes)]
    down = [a_link(1.25e8, 1.25e9) for _ in range(nodes)]
    between = {(a, b): a_link(5e7, 1e9) for a in range(sites) for b in range(sites) if a != b}

    def a_flow() -> PlannedFlow:
        source, target = rng.sample(range(nodes), 2)
        backbone = between.get((source % sites, target % sites))
        middle = () if backbone is None else (backbone,)
        start = rng.choice((0.0, 1.0, rng.uniform(0, 20)))
        size = rng.choice((10**6, 10**9, rng.randint(10**6, 5 * 10**9)))
        return PlannedFlow((up[source], *middle, down[target]), start, size)

    flows = tuple(a_flow() for _ in range(rng.randint(1, 60)))
    return Problem(tuple(capacity), flows)


def our_completion_times(problem: Problem) -> list[float]:
    network = FlowNetwork()
    links = [network.add_link(capacity) for capacity in problem.capacity]
    waiting = sorted(enumerate(problem.flows), key=lambda each: each[1].start, reverse=True)
    ends: dict[object, float] = {}
    while waiting or network.next_completion() < inf:
        due = network.next_completion()
        if waiting and waiting[-1][1].start < due:
            index, flow = waiting.pop()
            route = tuple(links[link] for link in flow.links)
            network.start(flow.start, route, flow.size, index)
        else:
            ends.update(dict.fromkeys(network.advance(due), due))
    return [ends[index] for index in range(len(problem.flows))]


def simgrid_completion_times(problems: list[Problem]) -> list[list[float]]:
    asked = json.dumps([asdict(problem) for problem in problems])
    command = [SYSTEM_PYTHON, str(REFEREE)]
    run = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answer: list[list[float]] = json.loads(run.stdout)
    return answer


def require_simgrid() -> None:
    """Skip without SimGrid on a laptop; in CI its absence is a failure."""
    try:
        command = [SYSTEM_PYTHON, "-c", "import simgrid"]
        missing = subprocess.run(command, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        missing = True
    if missing:
        reason = f"{SYSTEM_PYTHON} cannot import simgrid (Debian: apt install python3-simgrid)"
        if os.environ.get("DATAWARD_REQUIRE_SIMGRID"):
            pytest.fail(reason)
        pytest.skip(reason)


def test_completion_times_are_simgrids_to_within_a_millionth() -> None:
    require_simgrid()
    problems = [a_problem(seed) for seed in range(40)]

    answers = simgrid_completion_times(problems)

    for seed, (problem, theirs) in enumerate(zip(problems, answers, strict=True)):
        assert our_completion_times(problem) == pytest.approx(theirs, rel=1e-6), f"seed {seed}"
