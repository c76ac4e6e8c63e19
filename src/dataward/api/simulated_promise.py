"""The deadline of a simulated run: answered when its tasks are planned, and kept while it runs."""

from collections.abc import Sequence

import numpy as np

from dataward.model.deadline import WantedDeadline
from dataward.model.events import Event
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.client import promises_to_keep
from dataward.plan.adage import Plan
from dataward.plan.estimates import Estimated, Estimates
from dataward.runs.deadline_answer import DeadlineAnswer
from dataward.runs.promise_keeping import LOOK_SECONDS, PromiseKeeping
from dataward.sim.simulation import Simulation
from dataward.strategies.peercomp import cores_of, earliest_promises, wanted_on


class SimulatedPromise:
    """Promises a run when it is planned, and anew when one was broken, until the run has ended."""

    def __init__(self, wanted: WantedDeadline, estimates: Estimates) -> None:
        self._wanted = wanted
        self._sigma = estimates.sigma
        self._keeping: PromiseKeeping | None = None
        self._made: list[Event] = []  # promises that nobody was told of yet
        self.answer: DeadlineAnswer | None = None

    def plan(
        self,
        workflow: Workflow,
        platform: Platform,
        located: dict[int, Sequence[int]],
        seed: int,
    ) -> Plan:
        """The plan that keeps the deadline; what was guessed counts as unknown.

        Raises DeadlineRefusedError.
        """
        known = Estimated(workflow, np.full(len(workflow), self._sigma))
        wanted = wanted_on(platform, known, located)
        cores = cores_of(platform)
        keeping = PromiseKeeping(
            wanted, platform, self._wanted.seconds, self._made.append, lambda: cores
        )
        found = keeping.begin(0.0)
        self.answer = DeadlineAnswer(self._wanted, found, len(workflow))
        if self.answer.accepted is None and not self._wanted.best_effort:
            raise self.answer.error()
        self._keeping = keeping
        if keeping.made is None:
            return earliest_promises(workflow, platform, located, seed)
        return keeping.plan_for(workflow)

    def add(self, event: Event) -> None:
        if self._keeping is not None:
            self._keeping.add(event)

    def watch(self, simulation: Simulation) -> None:
        """Look after the promises, from time to time."""
        if self._keeping is not None:
            now = simulation.kernel.now()
            if self._keeping.look(now) is not None:
                self._renew(self._keeping, simulation)
            for event in self._made:
                simulation.emit(event)
            self._made.clear()
        if not simulation.is_finished:
            at = simulation.kernel.now() + LOOK_SECONDS
            simulation.kernel.call_at(at, self.watch, simulation)

    def _renew(self, keeping: PromiseKeeping, simulation: Simulation) -> None:
        plan = keeping.plan_for(simulation.workflow)
        for node, made in promises_to_keep(simulation.workflow, plan, simulation.nodes).items():
            simulation.send(node, made)
