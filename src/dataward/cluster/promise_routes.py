"""What a host lets others ask about promises: promises for a workflow, and mail of the tree."""

import asyncio
import logging
from math import isfinite
from typing import TYPE_CHECKING

from aiohttp import web

from dataward.cluster.exchange import PromiseAnswer, PromiseAsked
from dataward.cluster.gateway import NODES, SUBMITTERS, answer, asked_of
from dataward.cluster.promise_asking import Data, whole_workflow
from dataward.cluster.promise_ways import told_finish
from dataward.cluster.tree_addresses import address_of
from dataward.cluster.tree_here import TREE_PATH
from dataward.deadlines.frames import Outline, outline_of
from dataward.deadlines.reservations import WantedBytes
from dataward.errors import DatawardError
from dataward.live.routes import Route
from dataward.model.builder import WorkflowBuilder

if TYPE_CHECKING:
    from dataward.cluster.host import Host

log = logging.getLogger(__name__)

PROMISES_PATH = "/promises"


class PromiseRoutes:
    def __init__(self, host: "Host") -> None:
        self._host = host

    def routes(self) -> list[Route]:
        return [
            Route("POST", TREE_PATH, self._take_tree_mail, NODES),
            Route("POST", PROMISES_PATH, self._promise, SUBMITTERS),
        ]

    async def _take_tree_mail(self, request: web.Request) -> web.Response:
        try:
            self._host.tree.take(await request.read())
        except ValueError as error:
            log.warning("%s sent what is no mail of the tree: %s", request.remote, error)
            raise web.HTTPBadRequest(text="this is no mail of the tree") from error
        return web.Response(status=204)

    async def _promise(self, request: web.Request) -> web.Response:
        """Promises for a workflow, or by when it could be promised; then nothing is booked."""
        wanted = await asked_of(request, PromiseAsked)
        if not (isfinite(wanted.within_seconds) and wanted.within_seconds > 0):
            raise web.HTTPBadRequest(text="a deadline takes seconds above 0")
        try:
            outline = await asyncio.to_thread(_outline, wanted)
        except (DatawardError, ValueError, IndexError) as error:
            raise web.HTTPBadRequest(text=f"this is no workflow: {error}") from error
        asking, now = self._host.parts.asking, self._host.now()
        data = data_of(wanted, outline)
        question = whole_workflow(outline, now, now + wanted.within_seconds)
        promised = await asking.ask(question, data)
        if promised is not None:
            tasks = tuple(promised.tasks[task] for task in range(len(outline)))
            return answer(
                PromiseAnswer(question.deadline, promised.number, tasks, now=self._host.now())
            )
        seconds, tried = await asking.earliest(question, data)
        if tried is not None:
            asking.withdraw(tried)
        now = self._host.now()
        earliest = told_finish(now, seconds) if tried is not None else 0.0
        return answer(PromiseAnswer(question.deadline, earliest=earliest, now=now))


def data_of(wanted: PromiseAsked, outline: Outline) -> Data:
    """What tasks read from outside their sequences; hosts by the addresses of their first slots.

    What a task of another sequence makes may be anywhere, and counts as missing everywhere.
    """
    sequence = {task: n for n, tasks in enumerate(outline.sequences) for task in tasks}
    found: dict[int, WantedBytes] = {}
    for task, reads in wanted.reads.items():
        made = sum(size for by, size in reads.made.items() if sequence.get(by) != sequence[task])
        held = [(address_of(node, 0), size) for node, size in reads.held.items()]
        found[task] = WantedBytes(reads.bytes + made, held)
    return found


def _outline(wanted: PromiseAsked) -> Outline:
    if not wanted.work or len(wanted.work) != len(wanted.parents):
        raise ValueError("as many rows of parents as tasks, and at least one")
    if not all(isfinite(seconds) and seconds >= 0 for seconds in wanted.work):
        raise ValueError("work takes seconds of 0 or more")
    if len(wanted.cores) not in (0, len(wanted.work)):
        raise ValueError("as many numbers of cores as tasks, or none")
    if not all(0 <= p < len(wanted.work) for row in (*wanted.parents, wanted.reads) for p in row):
        raise ValueError("a parent that is no task")
    builder = WorkflowBuilder()
    for task, (seconds, parents) in enumerate(zip(wanted.work, wanted.parents, strict=True)):
        cores = wanted.cores[task] if wanted.cores else 1
        after = [f"t{p}" for p in parents]
        builder.task(f"t{task}", runtime_seconds=seconds, cores=cores, after=after)
    return outline_of(builder.build())
