"""Handles files as tasks commit: results are put into ``outputs/``, intermediate files are removed.

An intermediate file is removed once every task that reads it has committed. The inputs of a task
that failed stay, so that the task can be tried again without making them again.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from dataward.live.depot_disk import Place
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.runs.keeping import Keeping
from dataward.runs.preparation import Preparation
from dataward.runs.publishing import Publisher

SYNCED_TOGETHER = 256  # results in one sync, which costs as much for many files as for a few


class Depots(Protocol):
    """The files of the nodes that run the workflow."""

    def find(self, file: FileId) -> Place | None:
        """Where a file is, or None if no node has it."""
        ...

    def drop(self, file: FileId) -> None:
        """Remove a file from every depot, after the work that `later` was given before."""
        ...

    def later(self, work: Callable[[], None]) -> None:
        """Do slow work off the event loop, in the order given; after an error, do none of it."""
        ...


class Housekeeping:
    """Publishes results, and keeps or removes other files; it must be told of every task's end.

    A result leaves the depot only when its published file is safe on the disk; many results are
    synced at once. Other files that no task needs are kept as far as ``keeping`` allows.

    What a task wrote that was reopened stays until the end. It may differ from what others had
    read, who must run then; were it made again for them, it might be different again, and so on
    without end.
    """

    def __init__(
        self,
        workflow: Workflow,
        publisher: Publisher,
        is_wanted: Callable[[FileId], bool],
        depots: Depots,
        keeping: Keeping,
        seconds_of: Callable[[TaskId], float],
    ) -> None:
        self._workflow = workflow
        self._publisher = publisher
        self._is_wanted = is_wanted
        self._depots = depots
        self._keeping = keeping
        self._seconds_of = seconds_of
        self._readers = workflow.consumers.degrees().tolist()
        self._maker = [row[0] if row else -1 for row in workflow.producers.rows()]
        self._is_done = bytearray(len(workflow))
        self._stay: set[int] = set()  # files that were made again
        self._unsynced: list[FileId] = []  # published, but a power cut might still take them away
        self._to_drop: list[FileId] = []  # published files, to drop once they are synced

    def on_complete(self, task: TaskId) -> None:
        index = self._workflow.index_of[task]
        if self._is_done[index]:
            return  # told twice, or the task ran again
        self._is_done[index] = True
        for file in self._workflow.outputs.row(index).tolist():
            if not self._readers[file]:
                self._retire(file)
        for file in self._workflow.inputs.row(index).tolist():
            self._readers[file] -= 1
            if not self._readers[file] and self._maker[file] >= 0:
                self._retire(file)

    def on_reopened(self, task: TaskId) -> None:
        self._stay.update(self._workflow.outputs.row(self._workflow.index_of[task]).tolist())

    def _retire(self, number: int) -> None:
        """Publish, keep or drop a file that no task will read any more."""
        file = self._workflow.file_ids[number]
        stays = number in self._stay
        is_published = self._publish_if_wanted(file, stays=stays)
        if is_published and not stays:
            self._to_drop.append(file)
        elif not stays:
            self._keep(number, file)
        if len(self._unsynced) >= SYNCED_TOGETHER:
            self.settle()

    def _keep(self, number: int, file: FileId) -> None:
        place = self._depots.find(file)
        if place is not None:
            seconds = self._seconds_of(self._workflow.task_ids[self._maker[number]])
            for cheapest in self._keeping.add(file, place.size_bytes, seconds):
                self._depots.drop(cheapest)

    def settle(self) -> None:
        """Sync the published files, then drop them from the depots."""
        if self._unsynced:
            self._depots.later(partial(self._publisher.sync, self._unsynced))
        for file in self._to_drop:
            self._depots.drop(file)
        self._unsynced, self._to_drop = [], []

    def on_end(self) -> None:
        """Publish results that other tasks were still to read, but did not."""
        for task in range(len(self._workflow)):
            for file in self._workflow.outputs.row(task).tolist() if self._is_done[task] else ():
                if self._readers[file]:
                    self._publish_if_wanted(self._workflow.file_ids[file], stays=True)
        self.settle()

    def _publish_if_wanted(self, file: FileId, *, stays: bool) -> bool:
        """Whether the file is wanted and there; then it is published."""
        place = self._depots.find(file) if self._is_wanted(file) else None
        if place is None:
            return False
        if place.path != str(self._publisher.outputs / file):  # else an earlier run published it
            self._depots.later(partial(self._publisher.publish, file, place, stays=stays))
        self._unsynced.append(file)
        return True


def publish_known(
    prepared: Preparation, is_wanted: Callable[[FileId], bool], publisher: Publisher
) -> None:
    """Publish results of an earlier run that was killed before it had published them.

    It may also have published results and not synced them, so all of them are synced.
    """
    published = []
    for outcome in prepared.decision.skip.values():
        for file in outcome.outputs:
            place = prepared.outside.get(file.id)
            if is_wanted(file.id) and place is not None:
                if not place.outside:
                    publisher.publish(file.id, place, stays=True)
                published.append(file.id)
    if published:
        publisher.sync(published)
