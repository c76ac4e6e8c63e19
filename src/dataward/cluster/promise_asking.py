"""Asks the tree for promises in the name of a host: for a workflow, or for what is left of it.

Asked once more with later deadlines, the tree also tells by when a workflow could be promised that
it has refused. What was only tried is given back.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random

from dataward.cluster.exchange import PlacedPromise
from dataward.cluster.promise_ways import (
    IdleTime,
    idle_time,
    least_seconds,
    seconds_from,
    seconds_until,
    ways,
)
from dataward.cluster.tree_addresses import place_of, slot_of
from dataward.cluster.tree_here import TreeHere
from dataward.deadlines.frames import Allocation, Outline
from dataward.deadlines.group import PERIOD_SECONDS
from dataward.deadlines.reservations import WantedBytes
from dataward.deadlines.routing import TRIES_MAX
from dataward.deadlines.submission import SubmissionState, WorkflowSubmission

ANSWER_SECONDS = 20.0  # for one question; what has no answer by then is refused
STAGE_SECONDS = 5.0  # more for each stage of a workflow, which are asked for one after another
SEARCH_SECONDS = 10.0  # for the earliest deadline
EARLIER_SECONDS = 2.0  # for deadlines before the one that is asked for
NEWS_SECONDS = 1.1 * PERIOD_SECONDS  # until leaves have said what became of the last question
LAG_SECONDS = 0.5  # from the end of a task until another host has begun what waits for it

Data = Mapping[int, WantedBytes]


@dataclass(frozen=True, slots=True)
class Promised:
    """For each task that was asked for, where and by when; ``number`` names the bookings."""

    number: int
    tasks: dict[int, PlacedPromise]

    @property
    def finish(self) -> float:
        return max((one.deadline for one in self.tasks.values()), default=0.0)


class PromiseAsking:
    """One for a host: questions are asked one after the other, each with a number of its own."""

    def __init__(self, tree: TreeHere) -> None:
        self._tree = tree
        self._random = Random()
        self._turn = asyncio.Lock()

    async def ask(
        self, allocation: Allocation, data: Data, attempts_max: int = 2
    ) -> Promised | None:
        """Promises for the allocation's tasks, or None.

        The deadline is asked for in several ways; an earlier finish does as well.
        """
        tree = self._tree
        async with self._turn:
            await self._awake()
            until = tree.now + EARLIER_SECONDS
            wanted = seconds_until(tree.now, allocation.deadline)
            least = least_seconds(allocation, tree.speeds)
            if wanted[0] < least:
                return None
            idle = await asyncio.to_thread(idle_time, allocation, tree.speeds)
            for seconds in wanted:
                if seconds < least or (seconds < wanted[0] and tree.now > until):
                    break
                found = await self._any_way(allocation, seconds, idle, data, attempts_max)
                if found is not None:
                    return found
        return None

    async def earliest(self, allocation: Allocation, data: Data) -> tuple[float, Promised | None]:
        """About the fewest seconds within which promises are to be had, and these; inf if none are.

        First as many are tried as it would take if nothing else were promised, then more and more.
        """
        tree = self._tree
        async with self._turn:
            await self._awake()
            idle = await asyncio.to_thread(idle_time, allocation, tree.speeds)
            until = tree.now + SEARCH_SECONDS
            for seconds in seconds_from(max(idle.seconds, allocation.deadline - tree.now)):
                found = await self._any_way(allocation, seconds, idle, data, 1)
                if found is not None:
                    return seconds, found
                if tree.now > until:
                    break
        return inf, None

    async def _any_way(
        self,
        allocation: Allocation,
        seconds: float,
        idle: IdleTime,
        data: Data,
        attempts_max: int,
    ) -> Promised | None:
        for way in ways(seconds, idle):
            now = self._tree.now
            question = _afresh(allocation, way.pace, now + way.begin_seconds, now + seconds)
            found = await self._asked(question, data, attempts_max)
            if found is not None:
                return found
        return None

    def withdraw(self, promised: Promised) -> None:
        """Give promises back."""
        owner = self._tree.owner
        if promised.number in owner.submissions:
            self._tree.deliver(owner.withdraw(promised.number))

    async def _awake(self) -> None:
        self._tree.wake()
        with suppress(TimeoutError):  # without a place in the tree, every question is refused
            await asyncio.wait_for(self._tree.ready(), ANSWER_SECONDS)

    async def _asked(
        self, allocation: Allocation, data: Data, attempts_max: int
    ) -> Promised | None:
        tree = self._tree
        tree.wake()
        number = self._random.getrandbits(52)
        at_once = len(tree.speeds)
        tree.deliver(tree.owner.submit(number, allocation, tree.now, attempts_max, at_once, data))
        submission = tree.owner.submissions[number]
        try:
            async with asyncio.timeout(ANSWER_SECONDS + STAGE_SECONDS * allocation.outline.width):
                while submission.state in (SubmissionState.ASKING, SubmissionState.CONFIRMING):
                    await tree.moved.wait()
        except TimeoutError:
            tree.deliver(tree.owner.withdraw(number))
        if submission.state is not SubmissionState.ACCEPTED:
            await self._freed(submission)
            return None
        return self._placed(number, submission)

    async def _freed(self, submission: WorkflowSubmission) -> None:
        """Wait until all that was booked for a refused question is free, and known to be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_SECONDS):
                while submission.unreleased:
                    await self._tree.moved.wait()
        if len(self._tree.speeds) > TRIES_MAX:  # not every leaf is tried: what is known matters
            await asyncio.sleep(NEWS_SECONDS)

    def _placed(self, number: int, submission: WorkflowSubmission) -> Promised | None:
        nodes, found = self._tree.nodes, {}
        for task, (address, promise, beside) in submission.placed().items():
            node = nodes.get(place_of(address))
            if node is None:  # it has gone in this very moment
                self._tree.deliver(self._tree.owner.withdraw(number))
                return None
            found[task] = PlacedPromise(
                node, slot_of(address), promise.latest_end, promise.seconds, beside
            )
        return Promised(number, found)


def _afresh(allocation: Allocation, pace: float, begin: float, deadline: float) -> Allocation:
    """The question in another way, with nothing promised but what was from the start."""
    return Allocation(
        allocation.outline,
        begin,
        deadline,
        allocation.lag_seconds,
        pace,
        list(allocation.latest_ends),
        list(allocation.latest_starts),
    )


def whole_workflow(outline: Outline, now: float, deadline: float) -> Allocation:
    """The question for all tasks of a workflow."""
    return Allocation(outline, now, deadline, LAG_SECONDS)
