"""The files that a submitted workflow starts from: on the submitter's disk, or read where they are.

An input whose location in the workflow is an address (``s3://``, ``https://``, ``file://`` for a
disk that all hosts share) is not uploaded: the node that needs it reads it there.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dataward.live.packed_tree import entries_of, pack
from dataward.model.directories import is_directory
from dataward.model.workflow import FileId, Workflow
from dataward.runs.input_digests import InputDigests
from dataward.runs.preparation import InputFiles

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class LocalInput:
    """An input on the submitter's disk, and its content; a directory is uploaded packed."""

    path: Path
    size_bytes: int
    digest: str


class Inputs:
    """Finds every input of a workflow, beside its file or where the workflow says."""

    def __init__(self, workflow: Workflow, source: Path) -> None:
        self.origins: dict[FileId, str] = {
            file: place for file, place in workflow.locations.items() if _ADDRESS.match(place)
        }
        local = {f: place for f, place in workflow.locations.items() if f not in self.origins}
        self._found = InputFiles(source, local)

    def is_provided(self, file: FileId) -> bool:
        return file in self.origins or self._found.is_provided(file)

    @property
    def places(self) -> list[str]:
        return self._found.places

    def digested(
        self, workflow: Workflow, cache: Path
    ) -> Iterator[tuple[int, dict[FileId, LocalInput]]]:
        """How many inputs are done, and what was found of them so far: each step digests one."""
        read, made = workflow.consumers.degrees(), workflow.producers.degrees()
        cache.parent.mkdir(parents=True, exist_ok=True)
        seen, found = InputDigests(cache), dict[FileId, LocalInput]()
        names = [f for i, f in enumerate(workflow.file_ids) if read[i] and not made[i]]
        for done, file in enumerate(name for name in names if name not in self.origins):
            path = self._found.find(file)
            assert path is not None, "the workflow was found to be runnable"
            digest = seen.digest_as(file, path.absolute())
            found[file] = LocalInput(path.absolute(), _size_of(file, path), digest)
            yield done + 1, found
        seen.save()
        yield len(found), found


def _size_of(file: FileId, path: Path) -> int:
    if not is_directory(file):
        return path.stat().st_size
    return sum(entry.size_bytes for entry in entries_of(str(path)))


@contextmanager
def as_one_file(file: FileId, local: LocalInput) -> Iterator[str]:
    """A path with an input's content as one file: a directory is packed for the while."""
    if not is_directory(file):
        yield str(local.path)
        return
    with TemporaryDirectory(prefix="dataward-") as directory:
        path = os.path.join(directory, "packed")
        pack(entries_of(str(local.path)), path)
        yield path


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where digests of inputs are remembered between submissions."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME", "/tmp"), ".cache"
    )
    return Path(base) / "dataward"
