"""Writes WfFormat 1.5 and 1.6, in chunks."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dataward.errors import BadValueError, SettingError
from dataward.model.launch import Launch
from dataward.model.workflow import Command, Workflow

VERSIONS = ("1.5", "1.6")
# WfFormat requires both values, but nothing has been executed here. Zero and the start of Unix time
# show that, and keep the output the same every time.
_MAKESPAN_SECONDS = 0
_EXECUTED_AT = "1970-01-01T00:00:00Z"
_BATCH = 2000

_encode = msgspec.json.Encoder().encode


class _Task(Struct, gc=False, rename="camel"):
    name: str
    id: str
    parents: list[str]
    children: list[str]
    input_files: list[str]
    output_files: list[str]


class _File(Struct, gc=False, rename="camel"):
    id: str
    size_in_bytes: int
    dataward_path: str | UnsetType = UNSET


class _Command(Struct, gc=False):
    program: str | UnsetType = UNSET
    arguments: tuple[str, ...] | UnsetType = UNSET


class _Execution(Struct, gc=False, rename="camel"):
    id: str
    runtime_in_seconds: float
    core_count: int
    command: _Command | UnsetType = UNSET
    memory_in_bytes: int | UnsetType = UNSET
    dataward_retries: int | UnsetType = UNSET
    dataward_launch: dict[str, str | dict[str, str]] | UnsetType = UNSET


def render(workflow: Workflow, version: str = "1.6") -> Iterator[bytes]:
    """The workflow as a WfFormat document, in chunks; each task or file has its own line."""
    if version not in VERSIONS:
        raise SettingError(f"WfFormat {version!r} cannot be written; choose 1.5 or 1.6")
    return _document(workflow, version)


def _document(workflow: Workflow, version: str) -> Iterator[bytes]:
    yield b'{\n"name": %b,\n"schemaVersion": "%b",\n' % (_encode(workflow.name), version.encode())
    yield b'"workflow": {\n"specification": {\n'
    if version == "1.6":
        yield b'"metrics": %b,\n' % _encode(_metrics(workflow))
    yield b'"tasks": ['
    yield from _lines(_tasks(workflow))
    yield b'],\n"files": ['
    yield from _lines(_files(workflow))
    yield b']\n},\n"execution": {\n"makespanInSeconds": %d,\n' % _MAKESPAN_SECONDS
    yield b'"executedAt": "%b",\n' % _EXECUTED_AT.encode()
    if workflow.is_measured:
        yield b'"datawardMeasured": true,\n'
    yield b'"tasks": ['
    yield from _lines(_executions(workflow))
    yield b"]\n}\n}\n}\n"


def _lines(values: Iterable[Struct]) -> Iterator[bytes]:
    walk = iter(values)
    lead = b"\n"
    while batch := [_encode(value) for value in islice(walk, _BATCH)]:
        yield lead + b",\n".join(batch)
        lead = b",\n"


def _metrics(workflow: Workflow) -> dict[str, int]:
    widths = [int(n) for n in workflow.layers.starts[1:] - workflow.layers.starts[:-1]]
    return {
        "numberOfTasks": len(workflow),
        "numberOfFiles": len(workflow.file_ids),
        "sumOfFileSizesInBytes": sum(workflow.size_bytes.tolist()),
        "numberOfLevels": len(widths),
        "minimumWidth": min(widths),
        "maximumWidth": max(widths),
    }


def _tasks(workflow: Workflow) -> Iterator[_Task]:
    task, file = workflow.task_ids, workflow.file_ids
    rows = zip(
        workflow.task_names,
        task,
        workflow.parents.rows(),
        workflow.children.rows(),
        workflow.inputs.rows(),
        workflow.outputs.rows(),
        strict=True,
    )
    for name, id, parents, children, inputs, outputs in rows:
        yield _Task(
            name,
            id,
            [task[i] for i in parents],
            [task[i] for i in children],
            [file[i] for i in inputs],
            [file[i] for i in outputs],
        )


def _files(workflow: Workflow) -> Iterator[_File]:
    where = workflow.locations
    for file, size in zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True):
        yield _File(file, size, where.get(file, UNSET))


def _executions(workflow: Workflow) -> Iterator[_Execution]:
    rows = zip(
        workflow.task_ids,
        workflow.runtime_seconds.tolist(),
        workflow.cores.tolist(),
        workflow.commands,
        workflow.memory_bytes.tolist(),
        workflow.retries.tolist(),
        strict=True,
    )
    for index, (id, runtime, cores, command, memory, retries) in enumerate(rows):
        launch = workflow.launches.get(index)
        yield _Execution(
            id,
            runtime,
            cores,
            UNSET if command is None else _command(id, command),
            memory or UNSET,
            UNSET if retries < 0 else retries,
            UNSET if launch is None else _launch(launch),
        )


def _command(task: str, command: Command) -> _Command:
    for word in command:
        if not word.isascii() and not _is_writable(word):
            raise BadValueError(f"task {task!r}", "command", command, "which is not valid Unicode")
    return _Command(command[0], command[1:]) if command else _Command()


def _launch(launch: Launch) -> dict[str, str | dict[str, str]]:
    given = {**launch._asdict(), "env": dict(launch.env)}
    return {key: value for key, value in given.items() if value}


def _is_writable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
