"""Puts results into ``outputs/``. A power cut leaves each of them there whole, or not at all."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.live.durability import sync_files, sync_path
from dataward.live.packed_tree import unpack
from dataward.live.sandbox import EXECUTABLE
from dataward.live.trees import remove_tree
from dataward.model.directories import is_directory, without_slash
from dataward.model.workflow import FileId
from dataward.stores.journal import make_directory


@dataclass(frozen=True, slots=True)
class Publisher:
    """Puts files of the depot into ``outputs``, for the user to read, edit or remove.

    On its way a result is in ``drafts``, a directory of the same file system that the next run
    removes: so a killed run leaves nothing in ``outputs`` that the user has not asked for, and
    nothing that is in the way of the next one. After an error, nothing more may be published.
    """

    outputs: Path
    drafts: Path

    def publish(self, file: FileId, place: Place, *, stays: bool) -> None:
        """Put a file of the depot in the place of what has its name. Raises OutputError.

        A file that ``stays`` in the depot, or has another name there, is copied: a user who edits
        the published file must not edit the depot's.
        """
        path, draft = self.outputs / file, self.drafts / "new"
        try:
            make_directory(path.parent)
            self.drafts.mkdir(parents=True, exist_ok=True)
            if is_directory(file):
                unpack(place.path, str(draft))
                sync_files(_with_contents(str(draft)))
                self._replace_tree(draft, path)
            else:
                _draft(place, draft, stays=stays)
                os.replace(draft, path)
        except OSError as error:
            raise OutputError(str(path), error.strerror or str(error)) from error

    def _replace_tree(self, draft: Path, path: Path) -> None:
        old = self.drafts / "old"
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            os.rename(draft, path)
            return
        os.rename(path, old)
        os.rename(draft, path)
        sync_path(str(path.parent))  # or else the old one might be back, with less in it
        remove_tree(old)

    def sync(self, files: Iterable[FileId]) -> None:
        """Write published files and their names through to the disk. Raises OutputError."""
        contents, parents = list[str](), dict[str, None]()
        for file in files:
            path = os.path.join(self.outputs, without_slash(file))
            contents += _with_contents(path) if is_directory(file) else [path]
            parents[os.path.dirname(path)] = None
        above = dict.fromkeys(place for path in parents for place in self._up_from(Path(path)))
        try:
            sync_files([*contents, *above])
        except OSError as error:
            raise OutputError(str(self.outputs), error.strerror or str(error)) from error

    def _up_from(self, directory: Path) -> Iterator[str]:
        """All directories that must be safe for a file to be found, also if made long ago.

        A process that was killed may have made one and not synced it.
        """
        for place in (directory, *directory.parents):
            yield str(place)
            if place == self.outputs.parent:
                return


def _draft(place: Place, draft: Path, *, stays: bool) -> None:
    """Make a second name for the depot's file, whose content is safe, or a copy that is safe."""
    status = os.stat(place.path)
    if stays or place.outside or status.st_nlink > 1:
        shutil.copyfile(place.path, draft)
        sync_files([str(draft)])
    else:
        os.link(place.path, draft)
    os.chmod(draft, 0o644 | status.st_mode & EXECUTABLE)


def _with_contents(path: str) -> list[str]:
    """A directory with everything in it."""
    found = [path]
    for place, directories, files in os.walk(path):
        found += [os.path.join(place, name) for name in (*directories, *files)]
    return found
