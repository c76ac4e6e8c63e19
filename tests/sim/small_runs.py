"""Small runs on platforms where only what is being tested costs time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptAdvanced, AttemptEnded, Event
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Platform, StoreModel
from dataward.model.states import TaskState
from dataward.model.workflow import Workflow
from dataward.node.giving import Giving
from dataward.node.mover import Mover, Staying
from dataward.plan.adage import Plan
from dataward.reports.run_summary import RunSummary, RunTally
from dataward.sim.campaign import checker_of
from dataward.sim.simulation import Simulation, SimulationResult
from dataward.stores.task_record import TaskRecord
from dataward.strategies.registry import STRATEGIES
from dataward.strategies.strategy import Strategy

MB, GB = 10**6, 10**9
FREE_STORE = StoreModel(latency_seconds=0.0, service_seconds=0.0)
E = TypeVar("E")


def machines(count: int, **measures: Any) -> tuple[Machine, ...]:
    """So many equal machines, of one core unless said otherwise."""
    return tuple(Machine(f"n{i}", **{"cores": 1, **measures}) for i in range(count))


def cheap(*parts: Machine, **rest: Any) -> Platform:
    """A platform whose store and messages take no time."""
    return Platform(parts, **{"latency_seconds": 0.0, "store": FREE_STORE, **rest})


def one_task(seconds: float = 10.0, *, reads: int = 0, writes: int = 0, cores: int = 1) -> Workflow:
    return equal_tasks(1, seconds, reads=reads, writes=writes, cores=cores)


def equal_tasks(
    count: int, seconds: float = 10.0, *, reads: int = 0, writes: int = 0, cores: int = 1
) -> Workflow:
    """Tasks t0, t1, ... that do not know of each other, each with files of its own."""
    wf = WorkflowBuilder("equal tasks")
    for i in range(count):
        wf.file(f"in{i}", reads)
        wf.file(f"out{i}", writes)
        wf.task(
            f"t{i}",
            inputs=[f"in{i}"] if reads else [],
            outputs=[f"out{i}"] if writes else [],
            runtime_seconds=seconds,
            cores=cores,
        )
    return wf.build()


def adage(*, giving: bool = True, **changes: Any) -> Strategy:
    """ADAGE with these settings of its nodes and of its mover."""
    found = STRATEGIES["adage"]
    of_mover = {name: changes.pop(name) for name in list(changes) if hasattr(Giving, name)}
    mover: Mover = Giving(**of_mover) if giving else Staying()
    return replace(found, settings=replace(found.settings, **changes), mover=mover)


def all_on(node: int, **settings: Any) -> Strategy:
    """Every task prefers one node, the first submitted most urgent."""

    def plan(
        workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
    ) -> Plan:
        count = len(workflow)
        return Plan(np.arange(count, dtype=float), np.full(count, node, dtype=np.int32), None)

    return replace(adage(**settings), name=f"all on {node}", plan=plan)


@dataclass
class Run:
    """A simulation with its invariants checked and its events kept."""

    simulation: Simulation
    events: list[Event] = field(default_factory=list)
    outcome: SimulationResult | None = None

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def times(self, state: TaskState) -> dict[str, float]:
        """When each task came to this state, last; tasks in the order they did."""
        return {e.task: e.at for e in self.all(AttemptAdvanced) if e.state is state}

    def ends(self, task: str) -> list[tuple[NodeId, str]]:
        return [(e.node, e.outcome.value) for e in self.all(AttemptEnded) if e.task == task]

    @property
    def makespan(self) -> float:
        assert self.outcome is not None
        return self.outcome.makespan_seconds

    @property
    def summary(self) -> RunSummary:
        tally = RunTally()
        for event in self.events:
            tally.add(event)
        return tally.summary()

    @property
    def records(self) -> dict[str, TaskRecord]:
        found: dict[str, TaskRecord] = {}
        for shard in self.simulation.store.shards:
            found.update(shard.tasks)
        return found


Meddle = Callable[[Simulation], None]
React = Callable[[Simulation, Event], None]


def simulate(
    workflow: Workflow,
    platform: Platform,
    strategy: Strategy | None = None,
    *,
    meddle: Meddle = lambda simulation: None,
    react: React | None = None,
    **options: Any,
) -> Run:
    """Run to the end; ``meddle`` arranges things before it, ``react`` sees every event."""
    options.setdefault("time_limit_seconds", 2e4)
    simulation = Simulation(workflow, platform, strategy or adage(), **options)
    run = Run(simulation)
    checker = checker_of(simulation)
    simulation.watch(checker.on_event, checker.on_applied)
    simulation.watch(run.events.append)
    if react is not None:
        simulation.watch(lambda event: react(simulation, event))
    meddle(simulation)
    run.outcome = simulation.run()
    checker.at_end(run.outcome.complete, run.outcome.failed, run.outcome.removed)
    return run


def soon(simulation: Simulation, act: Callable[..., None], *arguments: Any) -> None:
    """Do something once the event being told of is over."""
    simulation.kernel.call_at(simulation.kernel.now(), act, *arguments)


def descendants(workflow: Workflow, tasks: Iterable[str]) -> set[str]:
    """These tasks and all that come after them."""
    number = {str(id): i for i, id in enumerate(workflow.task_ids)}
    children = list(workflow.children.rows())
    found: set[str] = set()
    ahead = [str(task) for task in tasks]
    while ahead:
        task = ahead.pop()
        if task not in found:
            found.add(task)
            ahead += [workflow.task_ids[c] for c in children[number[task]]]
    return found
