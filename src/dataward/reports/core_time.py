"""Computes what the cores of a run were used for, in each slice of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dataward.model.ids import NodeId
from dataward.model.states import AttemptOutcome
from dataward.reports.attempts import BEATEN, Attempt, CoresOf

Floats = NDArray[np.float64]


class Use(Enum):
    """What a core's time was used for, in the order the uses are stacked."""

    USEFUL = "useful"
    REPLICA = "useful, by a replica"
    UNDER_WAY = "under way"
    BEATEN = "wasted: another attempt won"
    BROKEN = "wasted: failed or crashed"
    STARVED = "idle, inputs on their way"
    DOWN = "node down"


def use_of(attempt: Attempt) -> Use:
    """What the time that an attempt ran counts as."""
    if attempt.outcome is AttemptOutcome.WON:
        return Use.REPLICA if attempt.replica else Use.USEFUL
    if attempt.outcome is AttemptOutcome.UNDER_WAY:
        return Use.UNDER_WAY
    return Use.BEATEN if attempt.outcome in BEATEN else Use.BROKEN


@dataclass(frozen=True, slots=True)
class Outage:
    """A node was down between two moments."""

    node: NodeId
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Core-seconds by use, row of nodes and slice of time; ``there_were`` counts idle ones too."""

    spent: Mapping[Use, Floats]
    there_were: Floats

    def shares(self, use: Use) -> Floats:
        return self.spent[use] / self.there_were

    def over_all_rows(self) -> "CoreTime":
        return CoreTime(
            {use: seconds.sum(axis=0, keepdims=True) for use, seconds in self.spent.items()},
            self.there_were.sum(axis=0, keepdims=True),
        )


def core_time(
    attempts: Sequence[Attempt],
    outages: Sequence[Outage],
    node_cores: Mapping[NodeId, int],
    row_of: Mapping[NodeId, int],
    edges: Floats,
    cores_of: CoresOf,
) -> CoreTime:
    """The core time of all attempts, by rows of nodes and the slices of time between ``edges``.

    A core is starved if it is idle while an attempt on its node brings inputs in; inputs that come
    while all cores are busy cost nothing.
    """
    number = {node: i for i, node in enumerate(node_cores)}
    cores = np.array([*node_cores.values()], dtype=np.int64)
    row = np.array([row_of[node] for node in node_cores], dtype=np.int64)
    rows = int(row.max(initial=0)) + 1
    changes: dict[Use, list[tuple[int, float, int]]] = {use: [] for use in Use}
    for attempt in attempts:
        node = number[attempt.node]
        staged = attempt.began + attempt.stage_in_seconds
        changes[Use.STARVED] += [(node, attempt.began, 1), (node, staged, -1)]
        if attempt.running is not None:
            amount = min(cores_of.get(attempt.task, 1), node_cores[attempt.node])
            stop = attempt.running + attempt.running_seconds
            changes[use_of(attempt)] += [(node, attempt.running, amount), (node, stop, -amount)]
    for outage in outages:
        node, amount = number[outage.node], node_cores[outage.node]
        changes[Use.DOWN] += [(node, outage.since, amount), (node, outage.until, -amount)]
    columns = {use: _columns(changes[use]) for use in Use}
    columns[Use.STARVED] = _starved(columns, cores)
    widths = np.diff(edges)
    return CoreTime(
        {
            use: _sliced(row[node], at, amount, rows, edges)
            for use, (node, at, amount) in columns.items()
        },
        np.bincount(row, weights=cores, minlength=rows)[:, None] * widths[None, :],
    )


_Columns = tuple[NDArray[np.int64], Floats, Floats]  # node, moment, change of level


def _columns(changes: list[tuple[int, float, int]]) -> _Columns:
    table = np.array(changes, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1], table[:, 2]


def _starved(columns: Mapping[Use, _Columns], cores: NDArray[np.int64]) -> _Columns:
    """The changes of the number of starved cores: idle ones, at most one for each stage-in."""
    staging = columns[Use.STARVED]
    taken = [columns[use] for use in Use if use is not Use.STARVED]
    node = np.concatenate([staging[0], *(column[0] for column in taken)])
    at = np.concatenate([staging[1], *(column[1] for column in taken)])
    order = np.lexsort((at, node))
    node, at = node[order], at[order]
    amount = np.concatenate([staging[2], *(column[2] for column in taken)])[order]
    is_staging = order < staging[0].size
    # Every increase has its decrease, so the sums are back at 0 where the next node begins.
    waiting = np.cumsum(np.where(is_staging, amount, 0.0))
    idle = cores[node] - np.cumsum(np.where(is_staging, 0.0, amount))
    level = np.clip(np.minimum(waiting, idle), 0.0, None)
    return node, at, np.diff(level, prepend=0.0)


def _sliced(row: NDArray[np.int64], at: Floats, amount: Floats, rows: int, edges: Floats) -> Floats:
    """The integral over each slice of levels that change by ``amount`` at given moments.

    Up to an edge e, a change before it contributes amount * (e - at). So two running sums suffice,
    of amount and of amount * at.
    """
    count = edges.size
    place = np.searchsorted(edges, at, side="left")
    inside = place < count
    cell = row[inside] * count + place[inside]
    level = np.bincount(cell, weights=amount[inside], minlength=rows * count)
    moment = np.bincount(cell, weights=(amount * at)[inside], minlength=rows * count)
    levels = np.cumsum(level.reshape(rows, count), axis=1)
    moments = np.cumsum(moment.reshape(rows, count), axis=1)
    slices = np.diff(edges[None, :] * levels - moments, axis=1)
    result: Floats = np.clip(slices, 0.0, None)
    return result
