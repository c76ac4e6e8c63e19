"""A node's files on a real disk: ``depot/NODE/DIGEST.WORD``, read-only and named by content.

How an output comes here and is made to survive a power cut:

1. The task writes it in its private directory. When the task has ended, the runner process checks
   that the output is there and makes it read-only (`Sandbox.take_out`). It hashes an output of up
   to 1 MiB, or a directory that it has packed, and renames it to its place in the depot. A larger
   file, or one that is an input as well, it only moves or copies to ``incoming/``.
2. `store_outputs` lists the outputs as this node's. Those in ``incoming/`` are first synced, hashed
   and renamed to their places, and the depot's directory is synced, all in a thread.
3. `sync` writes the others through to the disk, many at a time, and then the depot's directory,
   which has their names. The node's committer awaits it before it tells the store of any of them.

An output that an earlier run left is safe already. If it is in another node's depot, `recall` gives
it a name here too, and syncs that name at once.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

from dataward.live.backlog import Backlog
from dataward.live.durability import sync_files, sync_path
from dataward.live.file_digest import file_digest
from dataward.live.orders import Input, Written
from dataward.live.sandbox import digest_in, place_in_depot, put_in_depot
from dataward.model.operations import Commit, InputFile, OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId
from dataward.stores.journal import make_directory
from dataward.world import DiskFull, InputLost, StoredFile, TransferFailed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is. A file ``outside`` the depot belongs to the user, and is never removed."""

    path: str
    size_bytes: int
    digest: str
    outside: bool
    modified_ns: int = 0  # when its content was written; 0: not known


class Provenance(NamedTuple):
    """A file's owner, and whether a task here wrote it, as in `StoredFile`."""

    owner: str
    written: bool


class DepotDisk:
    capacity_bytes = inf  # as much as the disk has: a full disk is a task's error

    def __init__(
        self,
        directory: Path,
        held: Mapping[FileId, Place],
        earlier: Mapping[FileId, Place],
        hash_threads: Executor,
        sync_thread: Executor,
        backlog: Backlog,
    ) -> None:
        self.directory = str(directory)
        self._earlier = earlier
        self._hash_threads = hash_threads
        self._sync_thread = sync_thread
        self._backlog = backlog
        self._own_word = f"copy-{os.urandom(4).hex()}"
        self._copies = 0
        self._came = 0  # files that other nodes have sent, or began to send
        self._places: dict[FileId, Place] = dict(held)
        self._users: dict[str, int] = {}  # how many files are at this path
        for place in self._places.values():
            if not place.outside:
                self._users[place.path] = self._users.get(place.path, 0) + 1
        self._sources: dict[FileId, Provenance] = {}  # of files stored since this disk was opened
        self._written: dict[TaskId, tuple[Written, ...]] = {}
        self._unsynced: list[str] = []
        self._syncs: list[asyncio.Future[None]] = []  # under way
        make_directory(directory)

    # --- what a node asks ------------------------------------------------------------------------

    def files(self) -> list[StoredFile]:
        """The stored files; one from before this disk was opened counts as a workflow's input."""
        found: list[StoredFile] = []
        for file, place in self._places.items():
            owner, written = self._sources.get(file) or Provenance(file, False)
            found.append(StoredFile(file, place.size_bytes, owner, written, place.digest))
        return found

    def keep(self, file: InputFile) -> None:
        """The nodes of one process are lost together: nobody counts on a second copy."""

    def is_wanted(self, file: FileId) -> bool:
        return True  # the run says itself what may go, and when

    async def open_inputs(self, task: TaskSpec) -> None:
        """Check that all inputs are here; the runner process links them in."""
        places = self._places
        lost = [file for file in task.inputs if file.id not in places and file.producer]
        if lost:
            raise InputLost(lost)

    def output_bytes(self, task: TaskSpec) -> int:
        return sum(written.size_bytes for written in self._written[task.id])

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        """List a task's outputs as this node's; its commit is proposed only after this.

        Small files and packed directories have been hashed and put into the depot by the runner
        process, and are safe after the next `sync`. Large files (no digest yet) lie beside it; they
        are hashed, named and safe when this returns.
        """
        outputs = self._written.pop(task.id)
        places: list[Place] = []
        try:
            for written in outputs:
                digest, path = written.digest, written.path
                if not digest:
                    digest, path = await self._store_large(path)
                places.append(Place(path, written.size_bytes, digest, False, written.modified_ns))
        except DiskFull:
            for path in (*(place.path for place in places), *(one.path for one in outputs)):
                self._backlog.add(partial(_remove, path))
            raise
        source = Provenance(task.id, True)
        for written, place in zip(outputs, places, strict=True):
            if written.digest:
                self._unsynced.append(place.path)
            self._add(FileId(written.name), place, source)
        return tuple(
            OutputFile(FileId(written.name), place.size_bytes, place.digest)
            for written, place in zip(outputs, places, strict=True)
        )

    def recall(self, file: OutputFile, task: TaskId) -> bool:
        place = self._left_earlier(file)
        if place is None or place.digest != file.digest or not os.path.exists(place.path):
            return False
        if not place.outside and os.path.dirname(place.path) != self.directory:
            try:
                place = self._linked(place)
            except OSError:
                return False
            try:
                # Here and not in a thread: only nodes that share a machine have each other's files.
                _sync_all([place.path], self.directory)
            except OSError:
                self._backlog.add(partial(_remove, place.path))
                return False
        self._add(file.id, place, Provenance(task, True))
        return True

    def _left_earlier(self, file: OutputFile) -> Place | None:
        """Where an earlier run may have left a file."""
        return self._earlier.get(file.id)

    async def _store_large(self, path: str) -> tuple[str, str]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._hash_threads, _sync_and_name, path, self.directory
            )
        except OSError as error:
            raise _cannot_be_stored(error) from error

    async def sync(self) -> None:
        """As `Disk` promises: fsync for each of a few files, one syncfs for many; in a thread.

        Whoever asks while a sync is under way waits for that one too.
        """
        if self._unsynced:
            paths, self._unsynced = self._unsynced, []
            loop = asyncio.get_running_loop()
            self._syncs.append(
                loop.run_in_executor(self._sync_thread, _sync_all, paths, self.directory)
            )
        if self._syncs:
            syncs = tuple(self._syncs)
            await asyncio.wait(syncs)
            self._syncs = [sync for sync in self._syncs if not sync.done()]
            for sync in syncs:
                try:
                    sync.result()
                except OSError as error:
                    raise _cannot_be_stored(error) from error

    def remove(self, file: FileId) -> None:
        place = self._places.get(file)
        if place is None:
            return
        self._strike_off(file)
        if not place.outside and place.path not in self._users:
            self._backlog.add(partial(_remove, place.path))

    def journal(self, commit: Commit) -> None:
        """The embedded store loses nothing that it acknowledged: there is nothing to remember."""

    def journalled(self) -> list[Commit]:
        return []

    # --- what the rest of this room asks ---------------------------------------------------------

    def where(self, file: FileId) -> Place | None:
        return self._places.get(file)

    def places(self) -> list[Place]:
        return list(self._places.values())

    def inputs_of(self, task: TaskSpec) -> tuple[Input, ...]:
        places = self._places
        return tuple(
            Input(file.id, place.path, place.outside, place.size_bytes, place.modified_ns)
            for file in task.inputs
            for place in (places[file.id],)
        )

    def wrote(self, task: TaskId, outputs: tuple[Written, ...]) -> None:
        """A runner process has put these in the depot; `store_outputs` will ask for them."""
        self._written[task] = outputs

    def spoil(self, file: FileId) -> None:
        """Remove a file that somebody has written to, so that no task reads it any more."""
        place = self._places.get(file)
        if place is not None and not place.outside:
            with suppress(FileNotFoundError):
                os.unlink(place.path)
            self._strike_off(file)

    def is_gone(self, file: FileId, path: str) -> None:
        """Forget the file if it is known at this path, where it no longer is.

        If it is known at another path, it was made again since, and stays.
        """
        place = self._places.get(file)
        if place is not None and place.path == path:
            self._strike_off(file)

    def _strike_off(self, file: FileId) -> None:
        place = self._places.pop(file)
        self._sources.pop(file, None)
        if place.outside:
            return
        left = self._users[place.path] - 1
        if left:
            self._users[place.path] = left
        else:
            del self._users[place.path]

    def copy_from(self, file: FileId, place: Place, owner: str) -> Place:
        """The place of a new copy of another depot's file: on one disk, a second name for it."""
        if not place.outside:
            try:
                place = self._linked(place)
            except OSError as error:
                problem = error.strerror or str(error)
                raise TransferFailed(f"{file!r} cannot be copied: {problem}") from error
        self._add(file, place, Provenance(owner, False))
        return place

    def path_for_incoming(self) -> str:
        """A new path, on the depot's disk, for a file that another node sends."""
        incoming = f"{self.directory}/incoming"
        if not self._came:
            os.makedirs(incoming, exist_ok=True)
        self._came += 1
        return f"{incoming}/{self._own_word}-in-{self._came}"

    def take_in(self, file: FileId, place: Place, owner: str) -> None:
        """Move a file that has come whole into the depot. Raises OSError."""
        word = os.path.basename(place.path)
        own = put_in_depot(place.path, self.directory, place.digest, word)
        self._add(file, replace(place, path=own), Provenance(owner, False))

    def _linked(self, place: Place) -> Place:
        """A second name, in this depot, for a file of another depot. Raises OSError."""
        self._copies += 1  # no name twice: an earlier copy may be about to be removed
        own = place_in_depot(self.directory, place.digest, f"{self._own_word}-{self._copies}")
        os.link(place.path, own)
        return replace(place, path=own)

    def _add(self, file: FileId, place: Place, source: Provenance) -> None:
        known = self._places.get(file)
        if known is not None and known.path != place.path:
            self.remove(file)  # the file was made again: the older copy goes
            known = None
        self._places[file] = place
        self._sources[file] = source
        if known is None and not place.outside:
            self._users[place.path] = self._users.get(place.path, 0) + 1


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _cannot_be_stored(error: OSError) -> DiskFull:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk of the depot is full" if is_full else error.strerror or str(error)
    return DiskFull(f"an output cannot be stored: {why}")


def _sync_all(paths: Sequence[str], directory: str) -> None:
    sync_files(paths)
    sync_path(directory)


def _sync_and_name(path: str, depot: str) -> tuple[str, str]:
    sync_path(path)
    with open(path, "rb", buffering=0) as file:
        digest = file_digest(file, os.fstat(file.fileno()).st_size)
    place = put_in_depot(path, depot, digest, os.path.basename(path))
    sync_path(os.path.dirname(place))
    return digest, place


def clear_incoming(depot: Path) -> None:
    """Remove what was still coming into a depot directory when its process ended."""
    for left in (depot / "incoming").glob("*"):
        left.unlink()


def files_in_depot(depot: Path) -> Iterator[Place]:
    """The files in a depot directory, with the digests that their names tell.

    Files that may be written to are left out: see `published_in_depot`.
    """
    if depot.is_dir():
        yield from (place for place, is_writable in _listed(depot) if not is_writable)


def published_in_depot(depot: Path) -> Iterator[Place]:
    """The files in a depot directory that may be written to.

    A file becomes so when it is published as a result; from then on the user may edit it. It leaves
    the depot a moment later, unless its process is killed meanwhile.
    """
    if depot.is_dir():
        yield from (place for place, is_writable in _listed(depot) if is_writable)


def _listed(depot: Path) -> Iterator[tuple[Place, bool]]:
    for entry in os.scandir(depot):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            digest = digest_in(entry.name)
            place = Place(entry.path, status.st_size, digest, False, status.st_mtime_ns)
            yield place, bool(status.st_mode & stat.S_IWUSR)
