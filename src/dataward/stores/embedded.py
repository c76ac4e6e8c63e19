"""The store in a directory: shards in memory, and a journal of the operations they applied.

A shard that applies the same operations at the same times comes to the same state, so the journal
holds operations and times, and opening the store applies them again. Waiting for the disk off the
event loop is left to ``live``, through `OffLoop`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from dataward.errors import FormatError, SettingError
from dataward.model.answers import Answer
from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import (
    SHARD_OPERATIONS,
    Commit,
    Fail,
    Look,
    Operation,
    OutputFile,
    Probe,
    Recount,
    Remove,
    Tally,
    TaskSpec,
    shard_of,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.stores.journal import DirectoryLock, Journal, make_directory
from dataward.stores.node_record import NodeRecord
from dataward.stores.outboxes import Outboxes
from dataward.stores.shard import Shard
from dataward.stores.task_record import TaskRecord
from dataward.world import Flag, Kernel, StoreUnavailable

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]
OffLoop = Callable[[Work, Done], None]
"""Does work that waits for the disk while the event loop goes on; then calls ``done`` on the loop,
with the error if there was one. It is given one piece of work at a time."""

# With `shares_fate`, only calls with one of these operations wait until the disk has the record.
OUTCOMES = frozenset({Commit, Fail, Remove})

# Records that no call waits for are written with the next outcome, or once there are this many.
RECORDS_UNAWAITED_MAX = 1000

# These operations change nothing, so they are not written down. A patrol is written down, even one
# that finds nothing: it still tidies the lists that decide what the next patrol finds first.
READS = frozenset({Look, Probe, Recount, Tally})


def at_once(work: Work, done: Done) -> None:
    """Do the work on the event loop, which waits: for tests, and where nothing else runs."""
    try:
        work()
    except BaseException as error:
        done(error)
        if not isinstance(error, Exception):
            raise
    else:
        done(None)


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """``shares_fate`` says that all callers are nodes in the store's own process, lost with it.

    Then only calls with outcomes wait for the disk: a journal that breaks off tells what had
    happened up to some moment, and all that is left of later work are files that no commit names.
    Waiting for every call cost a node three quarters of its time (380 of 500 µs a task, measured).

    ``compact_bytes_min`` and ``compact_ratio`` say when the journal is replaced by a snapshot of
    the shards: never while it is smaller than the minimum (some 250,000 operations, which are read
    back in 2 to 4 s), then when it is ``compact_ratio`` times as long as the last snapshot.
    Measured, a task that was submitted, begun and committed takes 200 bytes as operations and 420
    in a snapshot. What a snapshot saves are renewals, claims and patrols, which go on for ever.
    """

    shares_fate: bool = False
    compact_bytes_min: int = 16 << 20
    compact_ratio: float = 4.0


class ShardState(msgspec.Struct, array_like=True):
    """Everything a `Shard` remembers, each field under the name of the shard's attribute.

    Only its outboxes have two fields here, ``full`` and ``given``. How many tasks are complete,
    failed and removed is written for earlier versions, and counted again when it is read.
    """

    index: int
    epoch: int
    recounted_epoch: int
    complete: int
    failed: int
    tasks: dict[TaskId, TaskRecord]
    nodes: dict[NodeId, NodeRecord]
    inputs: dict[str, dict[FileId, dict[NodeId, None]]]
    _submitted: list[TaskId]
    _tickets: int
    full: dict[TaskId, float]
    given: dict[TaskId, float]
    _recount_held_until: float
    _begun: dict[AttemptId, tuple[TaskId, float]]
    _leases: list[tuple[float, NodeId]]
    _lease_listed: dict[NodeId, float]
    _forgotten: int = 0
    removed: int = 0
    restored: int = 0
    recounted_restored: int = 0


_FIELDS = ShardState.__struct_fields__
_COUNTED = frozenset({"complete", "failed", "removed"})


class Snapshot(msgspec.Struct, array_like=True, tag="snapshot"):
    """A shard's state at one moment; it replaces the operations that led to it."""

    now: float
    shards: int
    state: ShardState


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch"):
    """The operations of one call that may have changed something, and when they were applied."""

    now: float
    operations: tuple[Operation, ...]


class CommittedTask(NamedTuple):
    """A complete task, with the files it wrote; one that was recalled wrote them in another run."""

    spec: TaskSpec
    outputs: tuple[OutputFile, ...]
    was_recalled: bool = False


@dataclass(slots=True, eq=False)
class _Group:
    """The records of several calls, written to the disk in one frame: all of them or none."""

    over: Flag
    records: list[bytes] = field(default_factory=list)
    is_awaited: bool = False
    is_durable: bool = False


class EmbeddedStore:
    """Keeps everything in memory, and in a directory of its own a journal to restore it from.

    No answer tells of anything that a crash could undo: a call returns when all the changes its
    answer tells of are on the disk, also changes made by earlier calls. (With ``shares_fate``, this
    holds only for outcomes.) Calls that arrive while the disk is busy are written together, next.
    If the disk or a rule of the shard fails, the calls under way fail and so does every later call:
    memory may then be ahead of the disk, and only opening the directory again tells what was kept.

    If the clock is behind the last entry in the journal, the store's time goes on from that entry.
    A clock that counts from the machine's start is behind after a restart.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float],
        kernel: Kernel,
        shards: int = 1,
        off_loop: OffLoop = at_once,
        settings: EmbeddedSettings | None = None,
    ) -> None:
        self.directory = directory
        self.calls = 0
        self._kernel = kernel
        self._off_loop = off_loop
        self._settings = settings or EmbeddedSettings()
        self._shards = [Shard(index) for index in range(shards)]
        self._encode = msgspec.msgpack.Encoder().encode
        self._now = 0.0
        self._stopped = ""
        self._is_closed = False  # True if closed while nothing had gone wrong
        self._writing: _Group | None = None
        self._next = _Group(kernel.flag())
        make_directory(directory)
        self._lock = DirectoryLock(directory)
        try:
            self._journal = self._open(directory / "journal")
        except BaseException:
            self._lock.release()
            raise
        self._clock = clock
        self._ahead_seconds = max(0.0, self._now - clock())

    @property
    def shard_count(self) -> int:
        return len(self._shards)

    @property
    def cut_bytes(self) -> int:
        """The bytes of an unfinished, unacknowledged write that were cut off on opening."""
        return self._journal.cut_bytes

    @property
    def failure(self) -> str:
        """Why no call is answered any more, or "" if nothing went wrong, even if closed."""
        return "" if self._is_closed else self._stopped

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        """As `Store` promises. Operations that cannot be encoded raise before any is applied."""
        if self._stopped:
            raise StoreUnavailable(self._stopped)
        self.calls += 1
        answers = self._apply(operations)
        group = self._next if self._next.records else self._writing
        must_wait = group is not None and self._must_wait(operations)
        if must_wait or len(self._next.records) > RECORDS_UNAWAITED_MAX:
            self._next.is_awaited = True
            self._write_if_idle()
        if must_wait and group is not None and not group.is_durable:
            await group.over.wait()
            if not group.is_durable:
                raise StoreUnavailable(self._stopped)
        return answers

    def _must_wait(self, operations: Sequence[Operation]) -> bool:
        return not self._settings.shares_fate or any(type(op) in OUTCOMES for op in operations)

    def committed(self) -> Iterator[CommittedTask]:
        """Every complete task."""
        for shard in self._shards:
            for record in shard.tasks.values():
                if record.state is TaskState.COMPLETE:
                    outputs = tuple(record.written.values())
                    yield CommittedTask(record.spec, outputs, record.was_recalled)

    def close(self) -> None:
        """Let go of the directory. Work given to `OffLoop` must have finished.

        Nothing needs to be written: all acknowledged changes are on the disk.
        """
        self._is_closed = not self._stopped
        self._stop("it is closed")
        if self._writing is not None:
            self._writing.over.set()
        self._journal.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- applying --------------------------------------------------------------------------------

    def _apply(self, operations: Sequence[Operation]) -> list[Answer]:
        shards = [self._shard_of(op) for op in operations]
        changes = tuple([op for op in operations if type(op) not in READS])
        self._now = now = max(self._now, self._clock() + self._ahead_seconds)
        record = self._encode(Batch(now, changes)) if changes else b""
        try:
            answers = [shard.apply(op, now) for shard, op in zip(shards, operations, strict=True)]
        except BaseException as error:
            # The shard may have been left between one state and the next.
            self._stop(f"a rule of the store failed ({error!r})")
            raise
        if record:
            self._next.records.append(record)
        return answers

    def _shard_of(self, operation: Operation) -> Shard:
        shards = self._shards
        if len(shards) == 1 and type(operation) not in SHARD_OPERATIONS:
            return shards[0]
        return shards[shard_of(operation, len(shards))]

    # --- writing ---------------------------------------------------------------------------------

    def _write_if_idle(self) -> None:
        group = self._next
        if self._writing is not None or self._stopped or not (group.records and group.is_awaited):
            return
        self._writing, self._next = group, _Group(self._kernel.flag())
        compacts = self._journal.size_bytes > self._compact_above_bytes
        done = partial(self._on_written, group, compacts)
        try:
            # A snapshot may stand for the group: the shards have applied just what it records.
            work = self._compaction() if compacts else partial(self._append, group.records)
            self._off_loop(work, done)
        except Exception as error:
            # A snapshot takes memory, which may run out: the waiting calls must be told.
            done(error)

    def _compaction(self) -> Work:
        return partial(self._journal.replace, self._snapshots())

    def _append(self, records: Sequence[bytes]) -> None:
        """Runs off the loop, so encoding the frame here delays no call."""
        self._journal.append(msgspec.msgpack.encode([msgspec.Raw(record) for record in records]))

    def _on_written(self, group: _Group, compacts: bool, error: BaseException | None) -> None:
        self._writing = None
        if error is not None:
            self._stop(f"its journal cannot be written ({error})")
        elif compacts:
            self._compact_later(self._journal.size_bytes)
        group.is_durable = error is None
        group.over.set()
        self._write_if_idle()

    def _stop(self, why: str) -> None:
        """Answer no call any more, except those whose records are being written just now."""
        self._stopped = self._stopped or (
            f"the store in {self.directory} has stopped: {why}; "
            "repair that and open the store again, nothing acknowledged is lost"
        )
        self._next.over.set()

    def _compact_later(self, base_bytes: int) -> None:
        """Set when to compact next; ``base_bytes`` is the journal's length up to its snapshots."""
        self._compact_above_bytes = max(
            self._settings.compact_bytes_min, int(base_bytes * self._settings.compact_ratio)
        )

    def _snapshots(self) -> list[bytes]:
        count = len(self._shards)
        return [
            self._encode([Snapshot(self._now, count, state_of(shard))]) for shard in self._shards
        ]

    # --- opening ---------------------------------------------------------------------------------

    def _open(self, path: Path) -> Journal:
        path.with_suffix(".new").unlink(missing_ok=True)  # left there if its writer was killed
        if not path.exists():
            journal = Journal.create(path, self._snapshots())
            self._compact_later(journal.size_bytes)
            return journal
        journal = Journal(path)
        try:
            self._replay(journal)
        except BaseException:
            journal.close()
            raise
        return journal

    def _replay(self, journal: Journal) -> None:
        decode = msgspec.msgpack.Decoder(list[Batch | Snapshot]).decode
        for payload in journal.frames():
            try:
                records = decode(payload)
            except msgspec.MsgspecError as error:
                raise FormatError(
                    str(journal.path),
                    f"holds records that this dataward does not know ({error})",
                    place=f"the frame before byte {journal.size_bytes}",
                    remedy="open it with the dataward that wrote it",
                ) from error
            for record in records:
                self._now = record.now
                if isinstance(record, Batch):
                    for op in record.operations:
                        self._shard_of(op).apply(op, record.now)
                else:
                    self._restore(record)
                    self._compact_later(journal.size_bytes)

    def _restore(self, snapshot: Snapshot) -> None:
        if snapshot.shards != len(self._shards):
            raise SettingError(
                f"the store in {self.directory} has {snapshot.shards} shards, "
                f"so it cannot be opened with {len(self._shards)}"
            )
        self._shards[snapshot.state.index] = shard_from(snapshot.state)


def state_of(shard: Shard) -> ShardState:
    """The shard's state. It shares the shard's objects: encode it before the shard changes."""
    return ShardState(*(getattr(_owner(shard, name), name) for name in _FIELDS))


def shard_from(state: ShardState) -> Shard:
    """A shard with this state."""
    shard = Shard(state.index)
    for name in _FIELDS:
        if name in _COUNTED:
            continue
        value, owner = getattr(state, name), _owner(shard, name)
        if isinstance(getattr(owner, name), OrderedDict):
            value = OrderedDict(value)
        setattr(owner, name, value)
    for record in shard.tasks.values():
        shard.counts[record.state] += 1
    return shard


def _owner(shard: Shard, name: str) -> Shard | Outboxes:
    """What has the attribute of this name."""
    return shard.outboxes if name in ("full", "given") else shard
