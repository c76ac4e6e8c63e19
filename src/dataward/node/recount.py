"""Repairs the state of tasks after a shard has lost acknowledged writes.

This is the only scan in the system: it happens once after a store's failover, a page at a time.
It looks at every unfinished task: a task that waits for a parent that has finished is told, a
parent that forgot that it was to run again is reopened, and a ready task that may be in no queue is
queued again. Attempts that the store forgot, or should have forgotten, are left to the patrol.
"""

from dataward.model.answers import Findings, Page, Standing
from dataward.model.events import Occasion
from dataward.model.operations import Look, Operation, Recount, Recounted, notice_of_end
from dataward.model.states import IN_VAIN, TaskState
from dataward.model.workflow import TaskId
from dataward.node.placer import Placer
from dataward.node.store_client import StoreClient

PAGE = 512


async def recount(store: StoreClient, placer: Placer, shards: int, findings: Findings) -> None:
    """Check every unfinished task, on all shards: their tasks may depend on what one forgot."""
    for shard in range(shards):
        cursor = 0
        while cursor >= 0:
            page = await store.ask(Recount(shard, cursor, PAGE), Page)
            await _tell_those_who_missed_it(store, placer, page)
            answers = await store.call([Look(task.task) for task in page.tasks])
            needy = [a for a in answers if isinstance(a, Standing) and a.needs_node]
            await placer.place(needy, Occasion.READY)
            cursor = page.cursor
    await store.call([Recounted(findings.shard, findings.epoch, findings.restored)])


async def _tell_those_who_missed_it(store: StoreClient, placer: Placer, page: Page) -> None:
    """Tell tasks of parents that have finished; reopen parents that forgot they were reopened.

    Nobody requires a second end of a parent before having reopened it. So a parent that is complete
    at an earlier end than a task requires has lost that, and would never run again.
    """
    missing = list(dict.fromkeys(parent for task in page.tasks for parent in task.missing))
    answers = await store.call([Look(parent) for parent in missing])
    parents: dict[TaskId, Standing] = {
        answer.task: answer for answer in answers if isinstance(answer, Standing)
    }
    notices: list[Operation] = []
    outdated: dict[TaskId, int] = {}
    for task in page.tasks:
        for parent, required in task.missing.items():
            known = parents[parent]
            end, generation = known.state, known.generation
            if end in IN_VAIN:
                notices.append(notice_of_end(task.task, parent, generation, end))
            elif end is TaskState.COMPLETE and generation < required:
                outdated[parent] = generation
            elif end is TaskState.COMPLETE:
                notices.append(notice_of_end(task.task, parent, generation, end, known.copies))
    await store.call(notices)
    await placer.reopen(outdated)
