"""Puts right what a shard broke by losing writes it had acknowledged.

The one scan in the system: it happens after a store's failover, once, and a page at a time. Every
unfinished task is looked at: one that waits for a parent that has finished is told, and one that
is ready but perhaps nobody's is queued again. Attempts that the store forgot, or remembers without
reason, are the patrol's to find.
"""

from dataward.model.answers import Findings, Page, Standing
from dataward.model.events import Occasion
from dataward.model.operations import Look, Notify, Operation, Recount, Recounted
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.placer import Placer
from dataward.node.store_client import StoreClient

PAGE = 512


async def recount(store: StoreClient, placer: Placer, shards: int, findings: Findings) -> None:
    """Check every unfinished task, on all shards: what one shard forgot, others may depend on."""
    for shard in range(shards):
        cursor = 0
        while cursor >= 0:
            page = await store.ask(Recount(shard, cursor, PAGE), Page)
            await _tell_those_who_missed_it(store, page)
            answers = await store.call([Look(task.task) for task in page.tasks])
            needy = [a for a in answers if isinstance(a, Standing) and a.needs_node]
            await placer.place(needy, Occasion.READY)
            cursor = page.cursor
    await store.call([Recounted(findings.shard, findings.epoch)])


async def _tell_those_who_missed_it(store: StoreClient, page: Page) -> None:
    missing = list(dict.fromkeys(parent for task in page.tasks for parent in task.missing))
    answers = await store.call([Look(parent) for parent in missing])
    parents: dict[TaskId, Standing] = {
        answer.task: answer for answer in answers if isinstance(answer, Standing)
    }
    notices: list[Operation] = []
    for task in page.tasks:
        for parent in task.missing:
            known = parents[parent]
            if known.state is TaskState.COMPLETE:
                notices.append(Notify(task.task, parent, known.generation, False, known.copies))
            elif known.state is TaskState.FAILED:
                notices.append(Notify(task.task, parent, known.generation, True))
    await store.call(notices)
