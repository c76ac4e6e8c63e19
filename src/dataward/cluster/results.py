"""Brings a run's results, and what is known of the run, from the cluster to this machine."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from blake3 import blake3

from dataward.cluster.description import RunOrders, TaskList, unpacked
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import OutputError
from dataward.formats.read import read_workflow
from dataward.live.kept_files import download, read_file
from dataward.live.packed_tree import unpack
from dataward.model.directories import is_directory, without_slash
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun
from dataward.model.operations import OutputFile
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.world import TransferFailed

FETCHES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RunResultFile:
    """A file that the run has made, and the nodes that have it."""

    file: OutputFile
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    files: int
    bytes: int
    missing: tuple[FileId, ...]  # results that no task has made


async def orders_of(visitor: Visitor, run: ClusterRun) -> RunOrders:
    return unpacked(await part_of(visitor, run, run.description), RunOrders)


async def part_of(visitor: Visitor, run: ClusterRun, digest: str) -> bytes:
    """A part of a run's description, from a keeper that is up. Raises ClusterError."""
    problems: list[str] = []
    for node in dict.fromkeys([*run.keepers, *visitor.members]):
        if node in visitor.members:
            try:
                content = await read_file(visitor.client, node, digest)
            except TransferFailed as error:
                problems.append(str(error))
                continue
            return content
    raise ClusterError(f"no node that is up has the description of {run.name} ({problems[:1]})")


async def workflow_of(visitor: Visitor, run: ClusterRun, directory: Path) -> Workflow:
    """The run's workflow, by way of a file in this directory."""
    orders = await orders_of(visitor, run)
    path = directory / "workflow.json"
    path.write_bytes(await part_of(visitor, run, orders.workflow))
    return await asyncio.to_thread(read_workflow, path)


async def results_of(
    visitor: Visitor, run: ClusterRun, workflow: Workflow, names: Sequence[str] = ()
) -> dict[FileId, RunResultFile | None]:
    """The results of a run by name, or the files named; None for what no task has made."""
    orders = await orders_of(visitor, run)
    wanted = [FileId(name) for name in names] or list(orders.wanted)
    makers: dict[FileId, TaskId] = {}
    for file in wanted:
        index = workflow.index_of_file.get(file)
        rows = workflow.producers.row(index).tolist() if index is not None else []
        if not rows:
            raise ClusterError(f"no task of {run.name} makes {file!r}")
        makers[file] = workflow.task_ids[rows[0]]
    tasks = unpacked(await part_of(visitor, run, orders.tasks), TaskList)
    found: dict[FileId, RunResultFile | None] = dict.fromkeys(wanted)
    skipped = {task.id: task for task in tasks.skipped}
    for task in skipped.keys() & set(makers.values()):
        for output in skipped[task].outputs:
            if output.id in found:
                found[output.id] = RunResultFile(output, tuple(visitor.members))
    asked = sorted(set(makers.values()) - skipped.keys())
    for facts in await visitor.look(run.name, asked):
        for written in facts.files:
            if written.file.id in found and written.file.digest:
                found[written.file.id] = RunResultFile(written.file, written.nodes)
    return found


async def fetch_results(
    visitor: Visitor,
    results: dict[FileId, RunResultFile | None],
    directory: Path,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> Fetched:
    """Bring results into a directory, whole and checked; what is there already stays.

    Raises ClusterError if a result cannot be had from any node, and OutputError.
    """
    there = {file: result for file, result in results.items() if result is not None}
    places, done, total_bytes = asyncio.Semaphore(FETCHES_AT_ONCE), 0, 0

    async def fetch(file: FileId, result: RunResultFile) -> None:
        nonlocal done, total_bytes
        async with places:
            try:
                await _fetch(visitor, file, result, directory)
            except OSError as error:
                raise OutputError(str(directory / file), error.strerror or str(error)) from error
        done += 1
        total_bytes += max(result.file.size_bytes, 0)
        on_done(done, len(there))

    await asyncio.gather(*(fetch(file, result) for file, result in there.items()))
    missing = tuple(file for file, result in results.items() if result is None)
    return Fetched(len(there), total_bytes, missing)


async def _fetch(visitor: Visitor, file: FileId, result: RunResultFile, directory: Path) -> None:
    path = directory / without_slash(file)
    if not is_directory(file) and await asyncio.to_thread(_has, path, result.file.digest):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    problems: list[str] = []
    try:
        # A host that has left has handed over what only it had.
        for node in dict.fromkeys((*result.nodes, *visitor.members)):
            try:
                is_program = await download(visitor.client, node, result.file.digest, str(draft))
            except TransferFailed as error:
                problems.append(str(error))
                continue
            if is_program is None:
                is_program = await _is_program(visitor, result)
            _publish(file, draft, path, is_program=is_program)
            return
    finally:
        draft.unlink(missing_ok=True)
    why = problems[0] if problems else "no node has it any more"
    raise ClusterError(f"{file!r} cannot be fetched: {why}")


async def _is_program(visitor: Visitor, result: RunResultFile) -> bool:
    """Whether a file was executable where it was made; if its maker is gone, it is not."""
    for node in result.nodes:
        told = await visitor.client.is_program(node, result.file.digest)
        if told is not None:
            return told
    return False


def _publish(file: FileId, draft: Path, path: Path, *, is_program: bool) -> None:
    if is_directory(file):
        unpack(str(draft), str(path))
    else:
        os.chmod(draft, 0o755 if is_program else 0o644)
        os.replace(draft, path)


def _has(path: Path, digest: str) -> bool:
    try:
        hasher = blake3()
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(1 << 20):
                hasher.update(piece)
        return hasher.hexdigest() == digest
    except OSError:
        return False


async def fetched(
    visitor: Visitor,
    name: str,
    names: Sequence[str],
    directory: Path,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> Fetched:
    """Bring a run's results, or the files named, into a directory."""
    await visitor.cluster()
    run = (await visitor.run(name)).run
    with TemporaryDirectory(prefix="dataward-") as place:
        workflow = await workflow_of(visitor, run, Path(place))
    results = await results_of(visitor, run, workflow, names)
    return await fetch_results(visitor, results, directory, on_done)
