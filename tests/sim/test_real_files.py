"""Real workflow files, simulated to their ends at many sizes."""

from pathlib import Path

import pytest

from dataward import read_workflow
from dataward.model.events import Event, TaskFinished
from dataward.model.platform import uniform_platform
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

SHARED = Path(__file__).parents[3] / "shared" / "workflows"
FILES = sorted(str(p.relative_to(SHARED)) for p in SHARED.glob("*/*") if p.is_file())
SIZES = (1, 2, 3, 4, 8, 16, 64)


class FinishedTasks:
    def __init__(self) -> None:
        self.count = 0

    def add(self, event: Event) -> None:
        self.count += isinstance(event, TaskFinished)


@pytest.mark.skipif(not FILES, reason="the shared workflows are not beside this project")
@pytest.mark.parametrize("file", FILES)
def test_a_real_file_is_simulated_to_its_end_at_every_size(file: str) -> None:
    workflow = read_workflow(SHARED / file)
    cores = max(4, int(workflow.cores.max()))

    for nodes in SIZES:
        finished = FinishedTasks()
        simulation = Simulation(
            workflow,
            uniform_platform(nodes, cores=cores),
            STRATEGIES["adage"],
            sinks=[finished.add],
            time_limit_seconds=1e9,
        )

        outcome = simulation.run()

        assert (outcome.complete, outcome.failed) == (len(workflow), 0), nodes
        assert finished.count == len(workflow), nodes
