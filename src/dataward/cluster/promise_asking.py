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
from dataward.cluster.tree_addresses import place_of, slot_of
from dataward.cluster.tree_here import TreeHere
from dataward.deadlines.frames import Allocation, Outline
from dataward.deadlines.group import PERIOD_SECONDS
from dataward.deadlines.promising import PACES
from dataward.deadlines.reservations import WantedBytes
from dataward.deadlines.submission import SubmissionState, WorkflowSubmission

ANSWER_SECONDS = 20.0  # for one question; what has no answer by then is refused
STAGE_SECONDS = 5.0  # more for each stage of a workflow, which are asked for one after another
SEARCH_SECONDS = 25.0  # for the earliest deadline
NEWS_SECONDS = 1.1 * PERIOD_SECONDS  # until leaves have said what became of the last question
STRETCHES = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 40.0)
LAG_SECONDS = 0.5  # from the end of a task until another host has begun what waits for it
CLOSE = 1.1  # deadlines that differ by less are not told apart

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
        """Promises for the allocation's tasks, or None; with all its slack shared, then without."""
        async with self._turn:
            await self._awake()
            for pace in PACES:
                promised = await self._asked(_afresh(allocation, pace), data, attempts_max)
                if promised is not None:
                    return promised
        return None

    async def earliest(self, allocation: Allocation, data: Data) -> tuple[float, Promised | None]:
        """About the fewest seconds within which promises are to be had, and these; inf if none are.

        More and more time is tried, then times between the last two, for a while.
        """
        now = self._tree.now
        until = now + SEARCH_SECONDS
        length = max(allocation.deadline - now, allocation.outline.minimum_length_seconds, 1.0)
        low, best, kept = length, inf, None
        tried = list(STRETCHES)
        async with self._turn:
            while self._tree.now < until:
                await asyncio.sleep(NEWS_SECONDS)
                if kept is None and not tried:
                    break
                seconds = length * tried.pop(0) if kept is None else (low * best) ** 0.5
                if kept is not None and best / low < CLOSE:
                    break
                found = await self._either_pace(allocation, self._tree.now + seconds, data)
                if found is None:
                    low = seconds
                    continue
                if kept is not None:
                    self.withdraw(kept)
                best, kept = seconds, found
        return best, kept

    async def _either_pace(
        self, allocation: Allocation, deadline: float, data: Data
    ) -> Promised | None:
        for pace in PACES:
            later = _afresh(allocation, pace)
            later.deadline = deadline
            found = await self._asked(later, data, 1)
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
        allocation.now = tree.now
        at_once = tree.slots_in_all
        tree.deliver(tree.owner.submit(number, allocation, tree.now, attempts_max, at_once, data))
        submission = tree.owner.submissions[number]
        try:
            async with asyncio.timeout(ANSWER_SECONDS + STAGE_SECONDS * allocation.outline.width):
                while submission.state in (SubmissionState.ASKING, SubmissionState.CONFIRMING):
                    await tree.moved.wait()
        except TimeoutError:
            tree.deliver(tree.owner.withdraw(number))
        if submission.state is not SubmissionState.ACCEPTED:
            return None
        return self._placed(number, submission)

    def _placed(self, number: int, submission: WorkflowSubmission) -> Promised | None:
        nodes, found = self._tree.nodes, {}
        for task, (address, promise) in submission.placed().items():
            node = nodes.get(place_of(address))
            if node is None:  # it has gone in this very moment
                self._tree.deliver(self._tree.owner.withdraw(number))
                return None
            seconds = promise.latest_end - promise.latest_start
            found[task] = PlacedPromise(node, slot_of(address), promise.latest_end, seconds)
        return Promised(number, found)


def _afresh(allocation: Allocation, pace: float) -> Allocation:
    """The same question, with nothing promised but what was from the start."""
    return Allocation(
        allocation.outline,
        allocation.now,
        allocation.deadline,
        allocation.lag_seconds,
        pace,
        list(allocation.latest_ends),
        list(allocation.latest_starts),
    )


def whole_workflow(outline: Outline, now: float, deadline: float) -> Allocation:
    """The question for all tasks of a workflow."""
    return Allocation(outline, now, deadline, LAG_SECONDS)
