"""A run as its pictures need it: attempts, outages, and what the cores' time was used for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dataward.model.events import Event, NodeJoined, NodeLost, RunStarted
from dataward.model.ids import NodeId
from dataward.model.states import AttemptOutcome
from dataward.reports.attempts import Attempt, AttemptBook, CoresOf, Step
from dataward.reports.chart_frame import x_of
from dataward.reports.core_time import CoreTime, Outage, core_time
from dataward.reports.run_summary import RunSummary, RunTally


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """Everything that is drawn."""

    summary: RunSummary
    node_cores: dict[NodeId, int]
    attempts: list[Attempt]
    outages: list[Outage]
    cores_of: CoresOf
    end_seconds: float

    def x(self, at: float) -> float:
        return x_of(at / self.end_seconds)


def gathered(events: Iterable[Event], cores_of: CoresOf) -> DrawnRun:
    attempts: list[Attempt] = []

    def on_step(attempt: Attempt, step: Step, at: float) -> None:
        if step is Step.ENDED:
            attempts.append(attempt)

    tally, book = RunTally(cores_of), AttemptBook(on_step)
    node_cores: dict[NodeId, int] = {}
    down: dict[NodeId, float] = {}
    outages: list[Outage] = []
    for event in events:
        tally.add(event)
        book.add(event)
        if type(event) is RunStarted:
            node_cores |= {facts.id: facts.cores for facts in event.nodes}
        elif type(event) is NodeLost:
            down.setdefault(event.node, event.at)
        elif type(event) is NodeJoined:
            node_cores.setdefault(event.node, 1)  # no event tells the cores of a late node
            if event.node in down:
                since = down.pop(event.node)
                outages.append(Outage(event.node, since, max(event.at, since)))
    summary = tally.summary()
    now = summary.makespan_seconds
    book.end_all(now, AttemptOutcome.UNDER_WAY)
    outages += [Outage(node, since, max(now, since)) for node, since in down.items()]
    for node in (*(attempt.node for attempt in attempts), *(outage.node for outage in outages)):
        node_cores.setdefault(node, 1)
    return DrawnRun(summary, node_cores, attempts, outages, cores_of, now or 1.0)


def use_by_row(run: DrawnRun, rows: Sequence[Sequence[NodeId]], slices: int) -> CoreTime:
    row_of = {node: i for i, row in enumerate(rows) for node in row}
    edges = np.linspace(0.0, run.end_seconds, slices + 1)
    return core_time(run.attempts, run.outages, run.node_cores, row_of, edges, run.cores_of)
