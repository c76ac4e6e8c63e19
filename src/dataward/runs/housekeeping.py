"""What becomes of files when tasks commit: results are put where people look, the rest goes.

An intermediate file is of no use once everybody who reads it has committed. A reader that failed
has not: its inputs stay, so that it can be tried again without making them anew.
"""

import os
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.live.sandbox import EXECUTABLE
from dataward.model.workflow import FileId, TaskId, Workflow

# Not the file's own name and more: that may be as long as names can be.
DRAFT_NAME = ".dataward-new"


class Housekeeping:
    """Told of every task that completes. ``find`` tells where a file is, ``drop`` removes it.

    ``later`` does what takes time, one piece after the other and before what ``drop`` does.

    ``read_by_others`` are files that tasks read which are not in ``workflow``, since they had run
    before. If such a file turns out different they must run too, so it stays; made again for them
    alone it might be different again, and so on without end.
    """

    def __init__(
        self,
        workflow: Workflow,
        outputs: Path,
        is_wanted: Callable[[FileId], bool],
        find: Callable[[FileId], Place | None],
        drop: Callable[[FileId], None],
        later: Callable[[Callable[[], None]], None],
        read_by_others: Collection[FileId] = frozenset(),
    ) -> None:
        self._workflow = workflow
        self._outputs = outputs
        self._is_wanted = is_wanted
        self._find = find
        self._drop = drop
        self._later = later
        self._read_by_others = read_by_others
        self._readers = workflow.consumers.degrees().tolist()
        self._is_made = (workflow.producers.degrees() > 0).tolist()
        self._is_done = bytearray(len(workflow))

    def on_complete(self, task: TaskId) -> None:
        index = self._workflow.index_of[task]
        if self._is_done[index]:
            return  # told twice, or made again for somebody
        self._is_done[index] = True
        for file in self._workflow.outputs.row(index).tolist():
            if not self._readers[file]:
                self._retire(file)
        for file in self._workflow.inputs.row(index).tolist():
            self._readers[file] -= 1
            if not self._readers[file] and self._is_made[file]:
                self._retire(file)

    def _retire(self, number: int) -> None:
        """Nobody will read it any more."""
        file = self._workflow.file_ids[number]
        stays = file in self._read_by_others
        self._publish_if_wanted(file, stays=stays)
        if not stays:
            self._drop(file)

    def on_end(self) -> None:
        """Publish what was waiting for readers that did not come to run."""
        for task in range(len(self._workflow)):
            for file in self._workflow.outputs.row(task).tolist() if self._is_done[task] else ():
                if self._readers[file]:
                    self._publish_if_wanted(self._workflow.file_ids[file], stays=True)

    def _publish_if_wanted(self, file: FileId, *, stays: bool) -> None:
        place = self._find(file) if self._is_wanted(file) else None
        if place is not None:
            self._later(partial(publish, place, self._outputs / file, stays=stays))


def publish(place: Place, path: Path, *, stays: bool) -> None:
    """Put a file of the depot where its user looks for it, as the user's own.

    One that ``stays`` in the depot, or has another name there, is copied: whoever edits their
    file must not edit that too.
    """
    draft = path.parent / DRAFT_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
