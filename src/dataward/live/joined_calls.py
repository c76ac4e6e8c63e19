"""Joins the calls that a node makes to its store at about the same time into one.

A call costs a server more than an operation does. So calls of one turn of the event loop go
together, and while two are under way the next ones wait for company until one of them is answered.
Whoever is alone does not wait, unless the node has work for a while: then calls are made only every
few milliseconds, which nobody here has to wait for.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from dataward.model.answers import Answer
from dataward.model.operations import Operation
from dataward.world import Store

UNDER_WAY_MAX = 2
PACE_SECONDS = 0.005  # between two calls, while the node has other work

_Waiting = tuple[Sequence[Operation], "asyncio.Future[list[Answer]]"]


class JoinedCalls:
    """A `Store` in front of another. If a call fails, all that were joined in it do.

    ``has_work`` says whether the node has enough to do for `PACE_SECONDS` whatever the store says.
    """

    def __init__(self, store: Store, has_work: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._has_work = has_work
        self._began_at = 0.0  # when the last call was made
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def shard_count(self) -> int:
        return self._store.shard_count

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[list[Answer]] = loop.create_future()
        self._waiting.append((operations, answers))
        self._send_soon(loop)
        return await answers

    def _send_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_due and self._waiting and self._under_way < UNDER_WAY_MAX:
            self._is_due = True
            early = self._began_at + PACE_SECONDS - monotonic()
            if early > 0 and self._has_work():
                loop.call_later(early, self._begin)
            else:
                loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        joined = [one for one in self._waiting if not one[1].done()]  # others were cancelled
        self._waiting = []
        if joined:
            self._under_way += 1
            self._began_at = monotonic()
            task = asyncio.get_running_loop().create_task(self._send(joined))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, joined: list[_Waiting]) -> None:
        try:
            answers = await self._store.call([op for operations, _ in joined for op in operations])
        except BaseException as error:
            for _, waiter in joined:
                if not waiter.done():
                    waiter.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            self._under_way -= 1
            self._send_soon(asyncio.get_running_loop())
        start = 0
        for operations, waiter in joined:
            if not waiter.done():
                waiter.set_result(answers[start : start + len(operations)])
            start += len(operations)
