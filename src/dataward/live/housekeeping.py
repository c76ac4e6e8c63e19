"""What becomes of files when tasks commit: results are put where people look, the rest goes.

An intermediate file is of no use once everybody who reads it has committed. A reader that failed
has not: its inputs stay, so that it can be tried again without making them anew.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.model.workflow import FileId, TaskId, Workflow


class Housekeeping:
    """Told of every task that completes. ``find`` tells where a file is, ``drop`` removes it."""

    def __init__(
        self,
        workflow: Workflow,
        outputs: Path,
        is_wanted: Callable[[FileId], bool],
        find: Callable[[FileId], Place | None],
        drop: Callable[[FileId], None],
    ) -> None:
        self._workflow = workflow
        self._outputs = outputs
        self._is_wanted = is_wanted
        self._find = find
        self._drop = drop
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
        if self._is_wanted(file):
            place = self._find(file)
            if place is not None:
                publish(place, self._outputs / file)
        self._drop(file)


def publish(place: Place, path: Path) -> None:
    """Put a file of the depot where its user looks for it, as the user's own.

    One that something else shares, a file of the same content or a copy, is copied: whoever edits
    their file must not edit that too.
    """
    draft = f"{path}.dataward-new"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(draft)  # from a run that was killed
        if place.outside or os.stat(place.path).st_nlink > 1:
            shutil.copyfile(place.path, draft)
        else:
            os.link(place.path, draft)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error
