"""The client: puts a planned workflow into the store, where the nodes find it; removes tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from dataward.model.answers import Answer, Findings, Standing
from dataward.model.events import Emit, Occasion, TaskFinished
from dataward.model.ids import CLIENT, NOBODY, NodeId
from dataward.model.messages import (
    KeepPromises,
    Message,
    PromisedSlot,
    Stock,
    Stop,
    TellChildren,
    WorkQueued,
)
from dataward.model.operations import (
    AddCopies,
    Copy,
    Earlier,
    Enqueue,
    InputFile,
    Look,
    Operation,
    OutputFile,
    QueueEntry,
    Recounted,
    Remove,
    Submit,
    TaskSpec,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.node.homes import Homes
from dataward.node.ready_queue import entry_for
from dataward.node.store_client import StoreClient
from dataward.plan.adage import Plan
from dataward.plan.estimates import Estimated
from dataward.world import Kernel

BATCH = 1000
FIRST_BATCH = 100  # small, so that nodes have tasks to run soon


def files_ahead(
    workflow: Workflow,
    plan: Plan,
    nodes: Sequence[NodeId],
    digests: Mapping[FileId, str] = MappingProxyType({}),
) -> dict[NodeId, Stock]:
    """What each node is told to bring in before a task needs it: inputs of the whole workflow.

    Of what tasks write, nodes are told when it is committed: see `TaskSpec.ahead`.
    """
    files: dict[NodeId, list[InputFile]] = {}
    for file, node in plan.ahead:
        if workflow.producers.row(file).size:
            continue
        id, size_bytes = workflow.file_ids[file], int(workflow.size_bytes[file])
        relay = _relay(plan, file, node, nodes)
        input_file = InputFile(id, size_bytes, TaskId(""), digests.get(id, ""), relay)
        files.setdefault(nodes[node], []).append(input_file)
    return {node: Stock(tuple(wanted)) for node, wanted in files.items()}


def promises_to_keep(
    workflow: Workflow, plan: Plan, nodes: Sequence[NodeId]
) -> dict[NodeId, KeepPromises]:
    """What each node is told to keep its cores free for; nothing, by most strategies."""
    slots: dict[NodeId, list[PromisedSlot]] = {}
    for task, node, core, deadline, seconds in plan.promises:
        slot = PromisedSlot(workflow.task_ids[task], core, deadline, seconds)
        slots.setdefault(nodes[node], []).append(slot)
    return {node: KeepPromises(tuple(made)) for node, made in slots.items()}


def task_specs(
    known: Estimated,
    plan: Plan,
    nodes: Sequence[NodeId],
    *,
    backups_max: int,
    retries: int = 0,
    digests: Mapping[FileId, str] = MappingProxyType({}),
    earlier: Mapping[TaskId, Earlier] = MappingProxyType({}),
) -> Iterator[TaskSpec]:
    """Every task as the store keeps it, in the workflow's order, with known digests of inputs.

    Every file must have one writer at most, and its readers must wait for that writer: see
    `as_replayed` and `as_run`.
    """
    workflow = known.workflow
    files, ids = workflow.file_ids, workflow.task_ids
    sizes = workflow.size_bytes.tolist()
    producer = [_sole(ids, writers) for writers in workflow.producers.rows()]
    reads = [
        InputFile(files[f], sizes[f], producer[f], digests.get(files[f], ""))
        for f in range(len(files))
    ]
    writes = [OutputFile(files[f], sizes[f]) for f in range(len(files))]
    ahead: dict[int, list[tuple[FileId, NodeId]]] = {}
    for file, at in plan.ahead:
        for task in workflow.producers.row(file).tolist():
            ahead.setdefault(task, []).append((files[file], nodes[at]))
    rows = zip(
        ids,
        workflow.types.tolist(),
        workflow.parents.rows(),
        workflow.children.rows(),
        workflow.inputs.rows(),
        workflow.outputs.rows(),
        workflow.runtime_seconds.tolist(),
        workflow.cores.tolist(),
        workflow.memory_bytes.tolist(),
        workflow.retries.tolist(),
        plan.preferred.tolist(),
        plan.priority.tolist(),
        workflow.commands,
        known.spread.tolist(),
        strict=True,
    )
    for index, (
        id, kind, parents, children, inputs, outputs, seconds, cores, memory, tries, node, priority,
        command, spread,
    ) in enumerate(rows):  # fmt: skip
        yield TaskSpec(
            id=id,
            type=workflow.type_names[kind],
            parents=tuple(ids[p] for p in parents),
            children=tuple(ids[c] for c in children),
            inputs=tuple(
                _relayed(reads[f], _relay(plan, f, node, nodes)) if plan.relays else reads[f]
                for f in inputs
            ),
            outputs=tuple(writes[f] for f in outputs),
            estimated_seconds=seconds,
            cores=cores,
            memory_bytes=memory,
            retries=retries if tries < 0 else tries,
            preferred=nodes[node],
            priority=priority,
            backups_max=backups_max,
            command=command or (),
            earlier=earlier.get(id),
            launch=workflow.launches.get(index),
            estimated_spread=spread,
            ahead=tuple(ahead.get(index, ())),
        )


def _relay(plan: Plan, file: int, node: int, nodes: Sequence[NodeId]) -> NodeId:
    """The node from which another is to have a file, or '' if that is planned of none."""
    relay = plan.relays.get((file, node))
    return NodeId("") if relay is None else nodes[relay]


def _relayed(file: InputFile, relay: NodeId) -> InputFile:
    return msgspec.structs.replace(file, relay=relay) if relay else file


def _sole(ids: Sequence[TaskId], writers: Sequence[int]) -> TaskId:
    assert len(writers) < 2, f"several tasks write one file: {[ids[task] for task in writers]}"
    return ids[writers[0]] if writers else TaskId("")


@dataclass
class Client:
    """Submits a workflow, and stays to submit again the tasks that the store may forget.

    ``placed`` says which nodes have which inputs of the workflow.
    """

    store: StoreClient
    homes: Homes
    specs: Sequence[TaskSpec]
    placed: Mapping[FileId, Sequence[NodeId]]
    send: Callable[[NodeId, Message], None]
    kernel: Kernel
    emit: Emit
    _removed: dict[TaskId, None] = field(default_factory=dict)

    async def submit(self, *, again: bool = False) -> None:
        """Put the places of inputs and all tasks in the store, and queue the ready tasks.

        Tasks with parents are submitted first, so that no task ends before its children are known.
        Of the others, the most urgent are queued while the rest are still being submitted.
        """
        await self._in_batches(
            [
                AddCopies(TaskId(file), tuple(Copy(file, node) for node in nodes))
                for file, nodes in self.placed.items()
            ]
        )
        await self._submit([spec for spec in self.specs if spec.parents], again=again)
        first = sorted(
            [spec for spec in self.specs if not spec.parents], key=lambda spec: spec.priority
        )
        start, size = 0, FIRST_BATCH
        while start < len(first):
            await self._submit(first[start : start + size], again=again)
            await self.store.let_others_run()
            start, size = start + size, min(2 * size, BATCH)

    async def queue_ready(self) -> None:
        """Queue the tasks that were ready when they were submitted and that no node runs.

        Who submitted them may have died before it could. Queued again, a task has still one entry
        at its node. Tasks with parents are queued by who tells them of the last one's end.
        """
        first = [spec.id for spec in self.specs if not spec.parents]
        for start in range(0, len(first), BATCH):
            await self._queue(await self.store.call(list(map(Look, first[start : start + BATCH]))))
            await self.store.let_others_run()

    async def _submit(self, specs: Sequence[TaskSpec], *, again: bool) -> None:
        await self._queue(await self._in_batches([Submit(spec, again) for spec in specs]))

    async def _queue(self, answers: Sequence[Answer]) -> None:
        needy = [a for a in answers if isinstance(a, Standing) and a.needs_node]
        ready: dict[NodeId, list[QueueEntry]] = {}
        for task, home in zip(needy, await self.homes.find(needy, Occasion.READY), strict=True):
            ready.setdefault(home.node, []).append(entry_for(task, home.shelf))
        await self._in_batches([Enqueue(n, tuple(entries)) for n, entries in ready.items()])
        for node in ready:
            self.send(node, WorkQueued())

    async def remove(self, tasks: Sequence[TaskId]) -> list[Standing]:
        """The standing of each task, now that those which had not finished are removed.

        With a task go all that depend on it: a node tells them. A task that is complete stays, and
        so do the tasks that depend on it. Tasks must have been submitted.
        """
        answers = await self._in_batches([Remove(task) for task in tasks])
        standings = [answer for answer in answers if isinstance(answer, Standing)]
        for standing in standings:
            if standing.granted:
                self._on_removed(standing)
        return standings

    def _on_removed(self, removed: Standing) -> None:
        """Report it, stop its attempts, have its children told: by a patrol if no node hears."""
        task, generation = removed.task, removed.generation
        self._removed[task] = None
        now = self.kernel.now()
        self.emit(TaskFinished(now, task, NOBODY, CLIENT, TaskState.REMOVED, generation))
        for holder in removed.holders:
            self.send(holder, Stop(task, generation))
        teller = self.homes.with_stand_in(removed).preferred
        self.send(teller, TellChildren(task, generation, removed.children))

    async def watch(self, pause_seconds: float) -> None:
        """Submit all tasks again whenever a shard has lost writes; tasks it knows stay as is.

        Tasks that were removed are removed again, unless they have been completed since.
        """
        seen = 0
        while True:
            await self.kernel.sleep(pause_seconds)
            answers = await self.store.call(
                [Recounted(i, 0) for i in range(self.store.shard_count)]
            )
            epochs = sum(answer.epoch for answer in answers if isinstance(answer, Findings))
            if epochs > seen:
                seen = epochs
                await self.submit(again=True)
                await self.remove(list(self._removed))

    async def _in_batches(self, operations: Sequence[Operation]) -> list[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(operations), BATCH):
            answers += await self.store.call(operations[start : start + BATCH])
        return answers
