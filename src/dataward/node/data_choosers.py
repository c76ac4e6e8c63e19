"""Choosers that look at data: which task of a pool suits the files that a node has."""

from collections.abc import Sequence
from random import Random

import numpy as np

from dataward.model.answers import Answer, Standing
from dataward.model.ids import NOWHERE, NodeId
from dataward.model.operations import Copy, Look
from dataward.model.workflow import FileId, TaskId
from dataward.node.overlaps import Comparison, Measure, Overlaps
from dataward.node.pool import Changes
from dataward.node.store_client import StoreClient
from dataward.node.weights import Metric, drawn, weights_of

BATCH = 1000  # tasks and files that the store is asked about at a time


class PoolOverlaps:
    """The overlaps of a pool's tasks, with what the store knows of their inputs.

    A task comes with its inputs. Where its parents' files are, their notices told; for a file
    without a parent, the store is asked when the first task comes that reads it.
    """

    def __init__(self, store: StoreClient, measure: Measure) -> None:
        self.overlaps = Overlaps(measure)
        self._store = store

    async def update(self, changes: Changes) -> None:
        for task in changes.went:
            self.overlaps.remove(task)
        for start in range(0, len(changes.came), BATCH):
            tasks = [entry.task for entry in changes.came[start : start + BATCH]]
            await self._add(await self._look(tasks))

    def on_evicted(self, node: NodeId, files: Sequence[FileId]) -> None:
        self.overlaps.evict(node, files)

    async def _add(self, tasks: Sequence[Standing]) -> None:
        new: dict[FileId, None] = {}
        for task in tasks:
            for file in task.inputs:
                if not file.producer and not self.overlaps.has_reader_of(file.id):
                    new[file.id] = None
        for outside in await self._look([TaskId(file) for file in new]):
            self._place(outside.copies)
        for task in tasks:
            self._place(task.input_copies)
            self.overlaps.add(task.task, task.inputs)

    def _place(self, copies: Sequence[Copy]) -> None:
        for copy in copies:
            if copy.node != NOWHERE:
                self.overlaps.place((copy.file,), copy.node)

    async def _look(self, owners: Sequence[TaskId]) -> list[Standing]:
        answers: list[Answer] = []
        for start in range(0, len(owners), BATCH):
            answers += await self._store.call([Look(id) for id in owners[start : start + BATCH]])
        return [answer for answer in answers if isinstance(answer, Standing)]


class BestSuited(PoolOverlaps):
    """The worker-centric paper's choice: one of the ``count`` best tasks by its metric."""

    def __init__(self, store: StoreClient, metric: Metric, count: int, random: Random) -> None:
        super().__init__(store, Measure.FILES)
        self._metric = metric
        self._count = count
        self._random = random

    def choose(self, node: NodeId) -> TaskId:
        tasks = self.overlaps.compare(node)
        place = drawn(weights_of(self._metric, tasks), self._count, self._random)
        return _given(self.overlaps, tasks, place, node)


class MostCached(PoolOverlaps):
    """Data diffusion's choice: of the first tasks in line the one with most bytes at the node.

    That is the first of them if the node has none of their inputs.
    """

    def __init__(self, store: StoreClient, window: int) -> None:
        super().__init__(store, Measure.BYTES)
        self._window = window

    def choose(self, node: NodeId) -> TaskId:
        tasks = self.overlaps.compare(node)
        first = np.flatnonzero(tasks.open)[: self._window]
        place = int(first[tasks.overlap[first].argmax()])
        return _given(self.overlaps, tasks, place, node)


def _given(overlaps: Overlaps, tasks: Comparison, place: int, node: NodeId) -> TaskId:
    task = tasks.tasks[place]
    assert task is not None, "a place without a task is never chosen"
    overlaps.give(task, node)
    return task
