"""Reads WfFormat (WfCommons JSON) 1.0 to 1.6.

Since 1.5 a document has a specification (tasks, files) and an execution (run times), joined by task
id; this module reads both. ``wfformat_flat`` reads the flat documents before 1.5.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dataward.errors import FormatError, WorkflowError
from dataward.formats.json_pieces import Pieces, given
from dataward.formats.wfformat_flat import read_flat
from dataward.formats.wfformat_parts import (
    DeclaredTwice,
    WfCommand,
    cores_of,
    declare_children,
    sharing,
    whole_bytes,
    words_of,
)
from dataward.model.builder import WorkflowBuilder
from dataward.model.launch import Launch, launch_of

_FLAT = ("1.0", "1.1", "1.2", "1.3", "1.4")
_SPLIT = ("1.5", "1.6")


class _Document(Struct):
    schema_version: str | int | float = msgspec.field(name="schemaVersion", default="")
    name: str = "workflow"
    workflow: Raw = Raw()


class _Workflow(Struct):
    specification: Raw = Raw()
    execution: Raw = Raw()
    tasks: Raw = Raw()
    jobs: Raw = Raw()


class _Lists(Struct):
    tasks: Raw = Raw()
    files: Raw = Raw()


class _Executed(Struct):
    """What a run has measured. ``datawardMeasured`` is our own addition to the format."""

    tasks: Raw = Raw()
    makespan: Any = msgspec.field(name="makespanInSeconds", default=0)
    measured: Any = msgspec.field(name="datawardMeasured", default=False)

    @property
    def is_measured(self) -> bool:
        """Whether there was a run at all: a workflow that nobody ran yet has a makespan of 0."""
        has_run = isinstance(self.makespan, int | float) and self.makespan > 0
        return has_run or self.measured is True


class _File(Struct, gc=False, rename="camel"):
    id: str
    size_in_bytes: int | float = 0
    dataward_path: str = ""  # our own addition to the format


class _Task(Struct, gc=False, rename="camel"):
    id: str
    name: str = ""
    parents: list[str] = []
    children: list[str] = []
    input_files: list[str] = []
    output_files: list[str] = []


class _Children(Struct, gc=False):
    id: str
    children: list[str] = []


class _Launch(Struct, gc=False, forbid_unknown_fields=True):
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    env: dict[str, str] = {}


class Execution(Struct, gc=False, rename="camel"):
    """What is known of one task's run; what begins with ``dataward`` is our own addition."""

    id: str
    runtime_in_seconds: float = 0.0
    command: WfCommand | None = None
    core_count: int | float = 1
    memory_in_bytes: int | float = 0
    dataward_retries: int | None = None
    dataward_launch: _Launch | None = None


_document = msgspec.json.Decoder(_Document)
_workflow = msgspec.json.Decoder(_Workflow)
_lists = msgspec.json.Decoder(_Lists)
_executed = msgspec.json.Decoder(_Executed)
_file = msgspec.json.Decoder(_File)
_task = msgspec.json.Decoder(_Task)
_children = msgspec.json.Decoder(_Children)
_execution = msgspec.json.Decoder(Execution)
_UNKNOWN = Execution("")

_SPECIFICATION = "$.workflow.specification"
_EXECUTION = "$.workflow.execution"


def read_wfformat(chunks: Iterator[bytes], source: str) -> WorkflowBuilder:
    """The workflow as declared in a WfFormat document of any version."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
    pieces = Pieces(source)
    document = pieces.whole(_document, data)
    version = _supported_version(document, source)
    try:
        builder = WorkflowBuilder(document.name)
    except WorkflowError as error:
        raise FormatError(source, str(error), place="$.name") from error
    workflow = pieces.piece(_workflow, document.workflow, "$.workflow")
    if version in _FLAT:
        key, tasks = ("tasks", workflow.tasks) if given(workflow.tasks) else ("jobs", workflow.jobs)
        read_flat(pieces, builder, tasks, f"$.workflow.{key}")
        builder.mark_measured()  # these versions describe nothing but runs
    else:
        _read_split(pieces, builder, workflow)
    return builder


def _supported_version(document: _Document, source: str) -> str:
    version = str(document.schema_version)
    if not given(document.workflow):
        raise FormatError(source, "is JSON, but not WfFormat: it has no 'workflow'", place="$")
    if not version:
        raise FormatError(source, "does not say which WfFormat it is", place="$.schemaVersion")
    if version not in _FLAT + _SPLIT:
        raise FormatError(
            source,
            f"this is WfFormat {version[:20]!r}",
            place="$.schemaVersion",
            remedy="dataward reads 1.0 to 1.6",
        )
    return version


def _read_split(pieces: Pieces, builder: WorkflowBuilder, workflow: _Workflow) -> None:
    if not given(workflow.specification):
        raise FormatError(pieces.source, "has no 'specification'", place="$.workflow")
    specification = pieces.piece(_lists, workflow.specification, _SPECIFICATION)
    _read_files(pieces, builder, pieces.elements(specification.files, f"{_SPECIFICATION}.files"))
    executed = _Executed()
    if given(workflow.execution):
        executed = pieces.piece(_executed, workflow.execution, _EXECUTION)
    if executed.is_measured:
        builder.mark_measured()
    executions = _Executions(pieces, executed.tasks)
    place = f"{_SPECIFICATION}.tasks"
    _read_tasks(pieces, builder, pieces.elements(specification.tasks, place), executions, place)
    executions.warn(builder)


def _read_files(pieces: Pieces, builder: WorkflowBuilder, raws: Sequence[Raw]) -> None:
    for index, raw in enumerate(raws):
        place = f"{_SPECIFICATION}.files[{index}]"
        file = pieces.piece(_file, raw, place)
        try:
            builder.file(file.id, whole_bytes(file.size_in_bytes), path=file.dataward_path)
        except WorkflowError as error:
            raise FormatError(pieces.source, str(error), place=place) from error


def _read_tasks(
    pieces: Pieces,
    builder: WorkflowBuilder,
    raws: Sequence[Raw],
    executions: "_Executions",
    place: str,
) -> None:
    share = sharing()
    twice = DeclaredTwice()
    for index, raw in enumerate(raws):
        task = pieces.piece(_task, raw, f"{place}[{index}]")
        run = executions.of(task.id)
        name = share(task.name or task.id)
        try:
            builder.task(
                task.id,
                name=name,
                command=words_of(run.command, name, share),
                inputs=task.input_files,
                outputs=task.output_files,
                after=task.parents,
                runtime_seconds=run.runtime_in_seconds,
                cores=cores_of(run.core_count),
                memory_bytes=whole_bytes(run.memory_in_bytes),
                retries=run.dataward_retries,
                launch=_launch(run.dataward_launch),
            )
        except WorkflowError as error:
            raise FormatError(pieces.source, str(error), place=f"{place}[{index}]") from error
        twice.note(task.id, task.parents, task.children)
    if not twice.agree:
        families = (pieces.piece(_children, raw, place) for raw in raws)
        declare_children(builder, pieces.source, place, ((f.id, f.children) for f in families))


def _launch(given: _Launch | None) -> Launch | None:
    return launch_of(given.stdin, given.stdout, given.stderr, given.env) if given else None


class _Executions:
    """Finds each task's recorded run.

    Writers list tasks and runs in the same order, so the next record is tried first; an index is
    made only when the orders differ.
    """

    def __init__(self, pieces: Pieces, raw: Raw) -> None:
        self.pieces = pieces
        self.place = f"{_EXECUTION}.tasks"
        self.raws = pieces.elements(raw, self.place)
        self.next = 0
        self.used = 0
        self.missing = 0
        self.where: dict[str, int] | None = None

    def of(self, task: str) -> Execution:
        if self.where is None and self.next < len(self.raws):
            run = self._decoded(self.next)
            if run.id == task:
                self.next += 1
                self.used += 1
                return run
            self._index()
        index = -1 if self.where is None else self.where.pop(task, -1)
        if index < 0:
            self.missing += 1
            return _UNKNOWN
        self.used += 1
        return self._decoded(index)

    def _decoded(self, index: int) -> Execution:
        return self.pieces.piece(_execution, self.raws[index], f"{self.place}[{index}]")

    def _index(self) -> None:
        self.where = {}
        for index in range(self.next, len(self.raws)):
            self.where.setdefault(self._decoded(index).id, index)

    def warn(self, builder: WorkflowBuilder) -> None:
        if self.missing:
            builder.warn(f"{self.missing} tasks have no recorded run; their run time counts as 0")
        if self.used < len(self.raws):
            builder.warn(
                f"{len(self.raws) - self.used} recorded runs are ignored: their task does not "
                "exist or has another recorded run"
            )
