"""The files that earlier runs left behind; that one is named by a digest is no proof."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from dataward.live.depot_disk import Place, clear_incoming, files_in_depot, published_in_depot
from dataward.live.packed_tree import tree_fingerprint
from dataward.live.sandbox import EXECUTABLE, READ_ONLY
from dataward.model.directories import is_directory
from dataward.model.workflow import FileId
from dataward.runs.deciding import Presence
from dataward.runs.input_digests import InputDigests, InputFileError, lies_at
from dataward.runs.run_directory import RunDirectory


class LeftFiles:
    """Looks for files by content, in the depots and among the outputs of a run directory.

    If that is allowed, files in a depot that do not hold what their names say are removed, and what
    was still coming in is too. A file that may be written to counts only if nobody else has it: it
    was to be published, but was not.
    """

    def __init__(
        self, directory: RunDirectory, digests: InputDigests, *, may_remove: bool = True
    ) -> None:
        self._may_remove = may_remove
        self._directory = directory
        self._digests = digests
        self._found: dict[str, Place | None] = {}  # in the depots, by digest

    def presence(self, file: FileId, digest: str) -> Presence:
        if self.find(file, digest) is not None:
            return Presence.THERE
        return Presence.CHANGED if (self._directory.outputs / file).exists() else Presence.GONE

    def find(self, file: FileId, digest: str) -> Place | None:
        """Where this content is: in a depot, or under its name in ``outputs/``."""
        if digest not in self._found:
            self._found[digest] = self._in_depots(digest)
        place = self._found[digest] or self._published(file, digest)
        if place is None:
            place = self._found[digest] = self._taken_back(digest)
        return place

    def _published(self, file: FileId, digest: str) -> Place | None:
        path = self._directory.outputs / file
        if not lies_at(file, path) or self._digest_of(path, file) != digest:
            return None
        if is_directory(file):
            size_bytes, modified_ns = tree_fingerprint(str(path))
            return Place(str(path), size_bytes, digest, True, modified_ns)
        status = path.stat()
        return Place(str(path), status.st_size, digest, True, status.st_mtime_ns)

    def _in_depots(self, digest: str) -> Place | None:
        for place in self._depots.get(digest, ()):
            if self._digest_of(Path(place.path)) == digest:
                return place
            if self._may_remove:
                with suppress(OSError):
                    os.unlink(place.path)
        return None

    def _taken_back(self, digest: str) -> Place | None:
        """A result in a depot that was made ready for the user, but has not got to ``outputs/``."""
        for place in self._unpublished.get(digest, ()):
            path = Path(place.path)
            if path.stat().st_nlink == 1 and self._digest_of(path) == digest:
                if self._may_remove:
                    path.chmod(READ_ONLY | path.stat().st_mode & EXECUTABLE)
                return place
        return None

    def _digest_of(self, path: Path, file: str = "") -> str:
        try:
            return self._digests.digest_as(file, path)
        except InputFileError:
            return ""

    @cached_property
    def _depots(self) -> dict[str, list[Place]]:
        """The files in the depots by the digests they are called by, also of other runs' nodes."""
        if self._may_remove:
            for depot in self._depot_directories():
                clear_incoming(depot)
        return self._by_digest(files_in_depot)

    @cached_property
    def _unpublished(self) -> dict[str, list[Place]]:
        return self._by_digest(published_in_depot)

    def _by_digest(self, files_in: Callable[[Path], Iterable[Place]]) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for depot in self._depot_directories():
            for place in files_in(depot):
                found.setdefault(place.digest, []).append(place)
        return found

    def _depot_directories(self) -> list[Path]:
        root = self._directory.depot
        return sorted(root.iterdir()) if root.is_dir() else []
