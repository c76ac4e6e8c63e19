"""One pass over a workflow: the tasks that are due, run to their ends in a session."""

import gc
from collections.abc import Callable

from dataward.kernel.realtime import AsyncioKernel
from dataward.live.session import Session
from dataward.model.events import TaskFinished, TaskReopened, TaskSkipped
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.node.client import Client
from dataward.runs.housekeeping import Housekeeping
from dataward.runs.removal_requests import RemovalAnswer, RemovalRequests

TICK_SECONDS = 0.25


class WorkflowPass:
    """Create it inside ``kernel.run``; the owner passes events to it."""

    def __init__(
        self,
        kernel: AsyncioKernel,
        session: Session,
        remaining: Workflow,
        housekeeping: Housekeeping,
        requests: RemovalRequests,
        on_tick: Callable[[float], None],
    ) -> None:
        self._kernel = kernel
        self._remaining = remaining
        self._requests = requests
        self._session = session
        self._housekeeping = housekeeping
        self._on_tick = on_tick
        self._left = set(remaining.task_ids)
        self._over = kernel.flag()
        self._is_interrupted = False

    @property
    def running(self) -> int:
        """How many tasks are running."""
        return self._session.running

    async def run(self, client: Client) -> None:
        """Submit the tasks, and wait until all have finished, or if interrupted all that ran."""
        await self._session.start()
        self._kernel.spawn(self._watch(), "watch")
        await client.submit()
        gc.freeze()  # the submitted objects stay until the end
        if self._is_interrupted:
            self._session.drain()
        while not await self._over.wait(TICK_SECONDS):
            self._on_tick(self._kernel.now())
            self._housekeeping.settle()
            await self._remove_what_is_unwanted(client)
            if self._is_interrupted and self._session.is_idle:
                break
        self._housekeeping.on_end()

    async def _remove_what_is_unwanted(self, client: Client) -> None:
        for request, tasks in self._requests.unanswered():
            # Tasks that are not among the remaining ones were complete before this pass.
            here = [task for task in tasks if task in self._remaining.index_of]
            others = {task: self._open_followers(task) for task in here}
            states = {standing.task: standing.state for standing in await client.remove(here)}
            answers = [
                RemovalAnswer(
                    task,
                    states.get(task, TaskState.COMPLETE),
                    others[task] if states.get(task) is TaskState.REMOVED else 0,
                )
                for task in tasks
            ]
            self._requests.answer(request, answers)

    def _open_followers(self, task: TaskId) -> int:
        """How many tasks depend on this one and have not finished."""
        found, todo = set[int](), [self._remaining.index_of[task]]
        while todo:
            fresh = set(self._remaining.children.row(todo.pop()).tolist()) - found
            found |= fresh
            todo.extend(fresh)
        return sum(self._remaining.task_ids[index] in self._left for index in found)

    async def _watch(self) -> None:
        """Raise what keeps the work from going on, whoever else waits for it in vain."""
        while self._session.failure is None:
            await self._kernel.sleep(TICK_SECONDS)
        raise self._session.failure

    def interrupt(self, *, again: bool) -> None:
        """Begin no more tasks; if asked ``again``, also end those that run."""
        self._is_interrupted = True
        if again:
            self._over.set()
        else:
            self._session.drain()

    def on_finished(self, event: TaskFinished) -> None:
        self._end(event.task, is_complete=event.state is TaskState.COMPLETE)

    def on_skipped(self, event: TaskSkipped) -> None:
        self._end(event.task, is_complete=True)

    def _end(self, task: TaskId, *, is_complete: bool) -> None:
        self._left.discard(task)
        if is_complete:
            self._housekeeping.on_complete(task)
        if not self._left:
            self._over.set()

    def on_reopened(self, event: TaskReopened) -> None:
        self._left.add(event.task)
        self._housekeeping.on_reopened(event.task)
