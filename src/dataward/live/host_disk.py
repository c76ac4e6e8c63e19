"""The disk of one run's node on a host that serves several runs.

It is a `DepotDisk` with three things more. Every file is in the host's index, so that others can
ask for it by content. The capacity is the host's, and other runs' files take up room in it. And the
commits that the store acknowledged are in a journal beside the files: should a shard of the store
forget them, the node commits them again, also after a restart. So are the files that came from
other nodes to stay.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from dataward.errors import FormatError
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place, Provenance
from dataward.live.digest_index import DigestIndex
from dataward.model.operations import Commit, InputFile, OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId
from dataward.stores.journal import Journal, make_directory
from dataward.world import StoredFile

T = TypeVar("T")


class EntryJournal(Generic[T]):
    """Entries of one kind, oldest first, in a file that survives a power cut.

    What is added is written by the backlog's thread, all that has come up to then in one frame. If
    the disk refuses a frame, the next one to be written makes a new file with all entries.
    """

    def __init__(self, path: Path, kind: type[T], backlog: Backlog) -> None:
        self._path = path
        self._backlog = backlog
        self._is_whole = True
        self._new: list[T] = []
        self._lock = threading.Lock()
        self.entries: list[T] = []
        if path.exists():
            with suppress(FormatError):  # a journal that cannot be read is work done again
                journal = Journal(path)
                for frame in journal.frames():
                    self.entries += msgspec.msgpack.decode(frame, type=list[kind])  # type: ignore[valid-type]
                self._journal = journal
                return
        make_directory(path.parent)
        self._journal = Journal.create(path, [])

    def add(self, entry: T) -> None:
        self.entries.append(entry)
        with self._lock:
            self._new.append(entry)
            if len(self._new) > 1:
                return  # it is written with the one that waits already
        self._backlog.add(self._write)

    def _write(self) -> None:
        with self._lock:
            new, self._new = self._new, []
            entries = [] if self._is_whole else list(self.entries)
        if not new:
            return
        if self._is_whole:
            self._is_whole = False
            self._journal.append(msgspec.msgpack.encode(new))
        else:
            self._journal.close()
            self._journal = Journal.create(self._path, [msgspec.msgpack.encode(entries)])
        self._is_whole = True

    def close(self) -> None:
        """Call it after the backlog's last piece of work."""
        self._journal.close()


class HostDisk(DepotDisk):
    """``on_outcome`` is told what a task read, by content, and what it committed.

    ``placed`` are the inputs that were put here for the run: perhaps nobody else has them.
    ``kept`` has those that came from other nodes to stay. ``wanted`` are the files that the run was
    asked for; ``on_result`` is told the digest of each that is here to stay.
    """

    def __init__(
        self,
        directory: Path,
        held: Mapping[FileId, Place],
        index: DigestIndex,
        capacity_bytes: Callable[[], float],
        journal: EntryJournal[Commit],
        kept: EntryJournal[InputFile],
        hash_threads: Executor,
        sync_thread: Executor,
        backlog: Backlog,
        on_outcome: Callable[[TaskSpec, Mapping[FileId, str], tuple[OutputFile, ...]], None],
        placed: Collection[FileId] = (),
        wanted: Collection[FileId] = (),
        on_result: Callable[[str], None] = lambda digest: None,
    ) -> None:
        self._index = index
        self._capacity_of_all = capacity_bytes
        self._journal = journal
        self._on_outcome = on_outcome
        self._placed = frozenset(placed)
        self._wanted = frozenset(wanted)
        self._on_result = on_result
        self._kept = kept
        self._kept_files = {file.id for file in kept.entries}
        self._ran: dict[TaskId, tuple[TaskSpec, dict[FileId, str]]] = {}
        self._gone: dict[FileId, str] = {}
        self.own_bytes = 0
        super().__init__(directory, held, {}, hash_threads, sync_thread, backlog)
        made = {file.id: commit for commit in journal.entries for file in commit.held}
        for one in kept.entries:
            if one.id in held:
                self._sources[one.id] = Provenance(one.producer or one.id, False)
        for place in {place.path: place for place in held.values()}.values():
            self._count_in(place)
        for file in made.keys() & held.keys():
            self._sources[file] = Provenance(made[file].task, True)

    def files(self) -> list[StoredFile]:
        stays = self._placed | self._kept_files
        return [msgspec.structs.replace(file, kept=file.id in stays) for file in super().files()]

    def is_wanted(self, file: FileId) -> bool:
        return file in self._wanted

    @property
    def capacity_bytes(self) -> float:  # type: ignore[override]
        """The host's capacity without what other runs take up."""
        return self._capacity_of_all() - max(self._index.used_bytes - self.own_bytes, 0)

    def keep(self, file: InputFile) -> None:
        place = self.where(file.id)
        if place is None or file.id in self._kept_files:
            return
        self._kept_files.add(file.id)
        self._kept.add(msgspec.structs.replace(file, digest=place.digest))
        if file.id in self._wanted:
            self._on_result(place.digest)

    def journal(self, commit: Commit) -> None:
        self._journal.add(commit)
        for file in commit.held:
            if file.id in self._wanted and file.digest:
                self._on_result(file.digest)
        spec, read = self._ran.pop(commit.task, (None, {}))
        if spec is not None and not commit.recalled:
            self._on_outcome(spec, read, commit.outputs)

    def journalled(self) -> list[Commit]:
        return list(self._journal.entries)

    def _left_earlier(self, file: OutputFile) -> Place | None:
        return self._index.find(file.digest) if file.digest else None

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        read = {file.id: place.digest for file in task.inputs if (place := self.where(file.id))}
        outputs = await super().store_outputs(task)
        self._ran[task.id] = (task, read)
        return outputs

    def remove(self, file: FileId) -> None:
        source = self._sources.get(file)
        if source is not None and source.written:
            self._ran.pop(TaskId(source.owner), None)  # its commit was refused
        super().remove(file)

    def is_gone(self, file: FileId, path: str) -> None:
        place = self._places.get(file)
        if place is not None:
            self._gone[file] = place.digest
        super().is_gone(file, path)

    def digest_of_gone(self, file: FileId) -> str:
        """What a file held that is not here any more: "" if that is not known."""
        return self._gone.get(file, "")

    def spoil_content(self, digest: str) -> None:
        """Keep tasks from reading files of this content: somebody has written to one of them."""
        for file in [file for file, place in self._places.items() if place.digest == digest]:
            self.spoil(file)

    def _add(self, file: FileId, place: Place, source: Provenance) -> None:
        is_new = place.path not in self._users
        super()._add(file, place, source)
        if is_new:
            self._count_in(place)

    def _strike_off(self, file: FileId) -> None:
        place = self._places[file]
        super()._strike_off(file)
        if not place.outside and place.path not in self._users:
            self._index.discard(place)
            self.own_bytes -= place.size_bytes

    def _count_in(self, place: Place) -> None:
        if not place.outside:
            self._index.add(place)
            self.own_bytes += place.size_bytes

    def close(self) -> None:
        """Write no more; the files stay. The run is over, or the host ends."""
        for journal in (self._journal, self._kept):
            self._backlog.add(journal.close)
