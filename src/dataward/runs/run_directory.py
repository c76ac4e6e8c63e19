"""Where a run keeps everything: one directory, that can be moved or removed as a whole.

outputs/       the workflow's results, under the names that the workflow gives them
depot/NODE/    files between tasks, named by content; those dearest to make are kept for reruns
work/          the private directories of running tasks, and results on their way to outputs/
store/         the journal of the run under way; merged into `outcomes` when it ends
outcomes       the last outcome of every task, so that it need not run again
stale          outputs that the workflow no longer makes, until they are removed
digests        of input files that have been read, so that they need not be read again
1/  2/ ...     a record of each run: events, logs, the workflow, and `run.json`; while the run is
               under way, also requests to remove tasks from it
dataward.json  marks the directory as one of runs; `lock` keeps a second run out
"""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataward.errors import DatawardError, FormatError, OutputError
from dataward.live.durability import replace_content, sync_path
from dataward.model.ids import AttemptId
from dataward.model.states import RunState
from dataward.model.workflow import TaskId
from dataward.stores.journal import DirectoryLock, is_locked, make_directory

_MARKER = "dataward.json"
_PLAIN = re.compile(r"[A-Za-z0-9_.,=+-]")
_LOG_NAME_MAX = 120
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_,=+-][A-Za-z0-9_.,=+-]{0,119}")


class NoRunError(DatawardError):
    """There is no run where one was asked for."""


def ended_state(failed: int, removed: int) -> RunState:
    """The state of a run that has ended, with so many tasks failed and removed."""
    if failed:
        return RunState.FAILED
    return RunState.PARTIAL if removed else RunState.COMPLETE


class RunFacts(msgspec.Struct):
    """The facts about a run that are not in its events."""

    workflow: str  # its name
    source: str  # the file it came from, as it was given
    began: float  # seconds since 1970
    starts: int = msgspec.field(default=1, name="sessions")  # how often started or resumed
    nodes: int = 1
    slots: int = 1
    strategy: str = "adage"
    keep: str = "final"
    state: RunState = RunState.RUNNING
    makespan_seconds: float = 0.0
    tasks: int = 0
    complete: int = 0  # without the skipped tasks
    skipped: int = 0
    failed: int = 0
    pid: int = 0
    place: str = ""  # the absolute path of the file it came from
    removed: int = 0
    cluster_run: str = ""  # its name there, if it was brought here from a cluster
    untold: int = 0  # complete tasks of which only nodes know that were not up then
    counted_from: float = 0.0  # when its clock would have begun without interruptions, if resumed

    def clock_seconds(self, now: float) -> float:
        """The run's time at that moment, without the time between an end and a resumption.

        0 if a version resumed it that did not note when.
        """
        zero = self.counted_from or (self.began if self.starts == 1 else now)
        return max(now - zero, 0.0)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run in a run directory: ``montage.run/2``."""

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name)

    @property
    def directory(self) -> Path:
        return self.path.parent

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def workflow(self) -> Path:
        return self.path / "workflow.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def outputs(self) -> Path:
        return self.directory / "outputs"

    @property
    def removals(self) -> Path:
        return self.path / "removals"

    def log_file(self, task: TaskId, attempt: AttemptId, stream: str) -> Path:
        """The log of an attempt's ``out`` or ``err``; if there is none, it printed nothing."""
        return self.logs / f"{file_name_for(task)}.{attempt}.{stream}"

    def facts(self) -> RunFacts:
        path = self.path / "run.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=RunFacts)
        except (OSError, msgspec.MsgspecError) as error:
            raise FormatError(str(path), f"cannot be read ({error})") from error

    def write_facts(self, facts: RunFacts) -> None:
        """Replace the facts, durably. Raises OutputError."""
        path = self.path / "run.json"
        try:
            replace_content(path, msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
        except OSError as error:
            raise OutputError(str(path), error.strerror or str(error)) from error

    def begin(self, facts: RunFacts) -> None:
        """Let the record count as a run, once all of it is safe. Raises OutputError."""
        try:
            sync_path(str(self.events))
            sync_path(str(self.path))
            self.write_facts(facts)
            sync_path(str(self.directory))
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def is_under_way(self) -> bool:
        """Whether the facts say that the run is running, and its process still exists."""
        facts = self.facts()
        return facts.state is RunState.RUNNING and is_locked(self.directory)


class RunDirectory:
    """A directory of runs. Only the process that has its `lock` may change anything in it.

    Others may make requests of that process (see `removal_requests`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def outputs(self) -> Path:
        return self.path / "outputs"

    @property
    def depot(self) -> Path:
        return self.path / "depot"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def drafts(self) -> Path:
        return self.work / "drafts"

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def outcomes(self) -> Path:
        return self.path / "outcomes"

    @property
    def stale(self) -> Path:
        return self.path / "stale"

    def holds_outcomes(self) -> bool:
        """Whether there may be outcomes of tasks that ran here before."""
        return self.outcomes.exists() or self.store.exists()

    def exists(self) -> bool:
        return (self.path / _MARKER).is_file()

    def make(self) -> None:
        """Make the directory, or take over one that is empty. Raises OutputError.

        Nothing is put into it before a power cut can no longer take it away, nor its marker: what
        would be left is a directory that holds other things. A process that was killed may have
        made directories and not synced them.
        """
        try:
            make_directory(self.path)
            if not self.exists():
                if any(self.path.iterdir()):
                    problem = "it holds other things; name a new or an empty directory with --out"
                    raise OutputError(str(self.path), problem)
                (self.path / _MARKER).write_text('{"version": 1}\n')
            for place in (self.path.parent, self.path, self.depot):
                if place.is_dir():
                    sync_path(str(place))
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def lock(self) -> DirectoryLock:
        """A lock that keeps other processes out until it is released. Raises DirectoryInUse."""
        return DirectoryLock(self.path)

    def runs(self) -> list[RunRecord]:
        """All runs recorded here, oldest first."""
        numbers = [int(p.name) for p in self.path.iterdir() if p.name.isdecimal() and p.is_dir()]
        records = [RunRecord(self.path / str(number)) for number in sorted(numbers)]
        return [record for record in records if (record.path / "run.json").is_file()]

    def latest(self) -> RunRecord:
        """The newest run. Raises NoRunError if there is none."""
        runs = self.runs() if self.exists() else []
        if not runs:
            raise NoRunError(f"{self.path} holds no run; 'dataward runs' lists those that exist")
        return runs[-1]

    def new_record(self) -> RunRecord:
        """A new record. It counts as a run, and can be resumed, once it has begun."""
        numbers = [int(p.name) for p in self.path.iterdir() if p.name.isdecimal()]
        record = RunRecord(self.path / str(max(numbers, default=0) + 1))
        try:
            record.logs.mkdir(parents=True)
        except OSError as error:
            raise OutputError(str(record.logs), error.strerror or str(error)) from error
        return record


def find_run(name: str) -> RunRecord:
    """The run of that name: a run directory (its latest run), or one run in it (``x.run/2``)."""
    path = Path(name)
    if path.name.isdecimal() and RunDirectory(path.parent).exists():
        record = RunRecord(path)
        if (path / "run.json").is_file():
            return record
        raise NoRunError(f"{path.parent} has no run {path.name}; 'dataward runs' lists them")
    return RunDirectory(path).latest()


def runs_below(directory: Path) -> list[RunRecord]:
    """Every run in this directory, if it is a run directory, and in those directly below it."""
    places = [directory, *sorted(p for p in directory.iterdir() if p.is_dir())]
    return [run for place in map(RunDirectory, places) if place.exists() for run in place.runs()]


def new_facts(workflow: str, source: str) -> RunFacts:
    return RunFacts(workflow, source, time.time(), pid=os.getpid(), place=os.path.abspath(source))


def file_name_for(task: TaskId) -> str:
    """A file name for the task: plain characters, not too long, different for every task."""
    if _PLAIN_NAME.fullmatch(task):
        return task  # most names are plain already
    name = "".join(c if _PLAIN.match(c) else f"%{ord(c):02x}" for c in task).lstrip(".")
    if len(name) <= _LOG_NAME_MAX and name and not task.startswith("."):
        return name
    from blake3 import blake3

    return f"{name[:_LOG_NAME_MAX]}~{blake3(task.encode()).hexdigest()[:12]}"
