"""Handles files as tasks commit: results are put into ``outputs/``, intermediate files are removed.

An intermediate file is removed once every task that reads it has committed. The inputs of a task
that failed stay, so that the task can be tried again without making them again.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.live.durability import sync_files, sync_path
from dataward.live.packed_tree import unpack
from dataward.live.sandbox import EXECUTABLE
from dataward.live.trees import remove_tree
from dataward.model.directories import is_directory
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.runs.keeping import Keeping
from dataward.runs.preparation import Preparation
from dataward.stores.journal import make_directory

# Not the file's own name with a suffix: that name may already have the greatest length allowed.
DRAFT_NAME = ".dataward-new"
OLD_NAME = ".dataward-old"
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
        outputs: Path,
        is_wanted: Callable[[FileId], bool],
        depots: Depots,
        keeping: Keeping,
        seconds_of: Callable[[TaskId], float],
    ) -> None:
        self._workflow = workflow
        self._outputs = outputs
        self._is_wanted = is_wanted
        self._depots = depots
        self._keeping = keeping
        self._seconds_of = seconds_of
        self._readers = workflow.consumers.degrees().tolist()
        self._maker = [row[0] if row else -1 for row in workflow.producers.rows()]
        self._is_done = bytearray(len(workflow))
        self._stay: set[int] = set()  # files that were made again
        self._unsynced: list[str] = []  # published, but a power cut might still take them away
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
            self._depots.later(partial(sync_published, self._unsynced))
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
        path = self._outputs / file
        if place.path == str(path):
            return True  # an earlier run has published it
        put = publish_tree if is_directory(file) else partial(publish, stays=stays)
        self._depots.later(partial(put, place, path))
        self._unsynced.append(str(path))
        return True


def sync_published(paths: Sequence[str]) -> None:
    """Write published files and their names through to the disk. Raises OutputError."""
    try:
        sync_files([file for path in paths for file in _with_contents(path)])
        for directory in dict.fromkeys(os.path.dirname(path) for path in paths):
            sync_path(directory)
    except OSError as error:
        where = os.path.dirname(paths[0])
        raise OutputError(where, error.strerror or str(error)) from error


def _with_contents(path: str) -> list[str]:
    """A file; or a directory with everything in it."""
    found = [path]
    for place, directories, files in os.walk(path):
        found += [os.path.join(place, name) for name in (*directories, *files)]
    return found


def publish_known(
    prepared: Preparation, is_wanted: Callable[[FileId], bool], outputs: Path
) -> None:
    """Publish results of an earlier run that was killed before it had published them."""
    published = []
    for outcome in prepared.decision.skip.values():
        for file in outcome.outputs:
            place = prepared.outside.get(file.id)
            if is_wanted(file.id) and place is not None and not place.outside:
                put = publish_tree if is_directory(file.id) else partial(publish, stays=True)
                put(place, outputs / file.id)
                published.append(str(outputs / file.id))
    if published:
        sync_published(published)


def publish(place: Place, path: Path, *, stays: bool) -> None:
    """Put a file of the depot at ``path``, for the user to read, edit or remove.

    A file that ``stays`` in the depot, or has another name there, is copied: a user who edits the
    published file must not edit the depot's.
    """
    draft = path.parent / DRAFT_NAME
    try:
        make_directory(path.parent)
        with suppress(FileNotFoundError):
            os.unlink(draft)  # from a run that was killed
        status = os.stat(place.path)
        if stays or place.outside or status.st_nlink > 1:
            shutil.copyfile(place.path, draft)
        else:
            os.link(place.path, draft)
        os.chmod(draft, 0o644 | status.st_mode & EXECUTABLE)
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


def publish_tree(place: Place, path: Path) -> None:
    """Put a packed directory of the depot at ``path``, in place of what is there."""
    draft, old = path.parent / DRAFT_NAME, path.parent / OLD_NAME
    try:
        make_directory(path.parent)
        remove_tree(draft)  # from a run that was killed
        remove_tree(old)
        unpack(place.path, str(draft))
        if path.is_dir() and not path.is_symlink():
            os.rename(path, old)
        else:
            path.unlink(missing_ok=True)
        os.rename(draft, path)
        remove_tree(old)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error
