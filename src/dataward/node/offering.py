"""Offers tasks that would have to wait to nodes that would start them sooner, staging counted.

Who is asked, and what they answer, is in `bidding`. Beside it, tasks that run late are run a second
time (`doubling`), and tasks that lost their node go back to their inputs (`returning`).

A node that came after this one had started was in no plan, and would have nothing to do for as long
as all goes as planned. So tasks that would have to wait are offered to newcomers even then.
"""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dataward.errors import SettingError
from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Bid, KeepSpare, MoverMessage, Offer
from dataward.model.operations import QueueEntry, Shelf
from dataward.model.workflow import TaskId
from dataward.node.bidding import Bidding
from dataward.node.doubling import Doubler
from dataward.node.forecast import cores_free_in, expected_seconds, overrun_seconds, starts_in
from dataward.node.handing_over import move
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbourhood, Neighbours
from dataward.node.returning import Returner
from dataward.node.spare_offers import SpareOffers
from dataward.node.trials import Trials
from dataward.node.volunteering import Volunteer

LATE_SHARE = 0.1  # of its estimated run time: for less, no task is moved
LATE_SECONDS = 5.0
LATE_RUN_SHARE = 0.25  # of the run so far: so late may tasks start though all goes as planned
NEWCOMER_TASKS_MAX = 64  # in one offer, while there are newcomers: they have nothing
LEAST_GAIN_SECONDS = 0.5  # for less, no task moves: that is what asking and moving may take


@dataclass(frozen=True, slots=True)
class Offering:
    """Offers to the square root of all nodes, drawn anew each time."""

    tasks_max: int = 8  # in one offer
    pause_seconds_min: float = 1.0  # after an offer
    pause_seconds_max: float = 64.0  # if nobody would be sooner, again and again
    bid_seconds: float = 0.2  # how long bids are waited for
    run_share: float = 0.5  # a task moves if it starts sooner by this share of its run time
    neighbours: int = 0  # 0: the square root of the number of nodes
    volunteers: bool = True  # a node with an idle core says so
    spare_seconds: float = 60.0  # what still runs for longer is run on an idle core too; inf: none

    def __post_init__(self) -> None:
        if not self.pause_seconds_min > 0:
            raise SettingError("a node with pause_seconds_min 0 would never rest; give more than 0")
        if not self.spare_seconds >= 0:
            raise SettingError("spare_seconds is a time, so it cannot be negative")

    def at(self, parts: NodeParts) -> "OfferMover":
        world = parts.world
        neighbours = Neighbours(
            world.node, world.nodes, world.random, parts.store, Neighbourhood.DYNAMIC,
            self.neighbours,
        )  # fmt: skip
        return OfferMover(parts, self, neighbours)


NOBODY_RESERVED: Mapping[TaskId, Collection[NodeId]] = {}
NOTHING_BOUND: Mapping[TaskId, float] = {}
FASTER_SHARE = 0.9  # of the run time here: a node that takes less than this is a faster one

# --- decisions -----------------------------------------------------------------------------------


def winners(
    waits: Mapping[TaskId, float],
    bids: Sequence[Bid],
    offered: Sequence[QueueEntry],
    run_share: float,
    reserved: Mapping[TaskId, Collection[NodeId]] = NOBODY_RESERVED,
    late: Collection[TaskId] = (),
    bound: Mapping[TaskId, float] = NOTHING_BOUND,
) -> dict[TaskId, NodeId]:
    """Which of the offered tasks go where: each to the node that would start it first.

    ``waits`` is how long each would wait here. A task that is not loose was planned with care: it
    stays unless it would start elsewhere sooner by ``run_share`` of its run time there, or is one
    of the ``late``, which would start too late here for the plan to end in time.
    Tasks choose in this order; no node is given more tasks than it has places. Equal starts go to
    the lowest id. A task in ``reserved`` goes to one of the nodes there, or stays. One that is
    ``bound`` would run here for so many seconds, and does not go to a faster node: that one has as
    much to do by the plan as it can, and would end its own tasks later.
    """
    places = {bid.node: bid.places for bid in bids}
    given: dict[TaskId, NodeId] = {}
    for number, entry in enumerate(offered):
        wanted = reserved.get(entry.task)
        least_seconds = FASTER_SHARE * bound.get(entry.task, 0.0)
        open_bids = [
            bid for bid in bids
            if places[bid.node] > 0 and (wanted is None or bid.node in wanted)
            and not _run_seconds(bid, number) < least_seconds
        ]  # fmt: skip
        if not open_bids:
            continue
        best = min(open_bids, key=lambda bid: (bid.times[number][0], bid.node))
        start, end = best.times[number]
        if start == inf:
            continue
        is_free = is_loose(entry) or entry.task in late
        margin = LEAST_GAIN_SECONDS + (0.0 if is_free else run_share * (end - start))
        if start + margin < waits[entry.task]:
            given[entry.task] = best.node
            places[best.node] -= 1
    return given


def _run_seconds(bid: Bid, number: int) -> float:
    """How long a task of an offer would run at the node that bids; nan if it would never start."""
    start, end = bid.times[number]
    return end - start


def is_loose(entry: QueueEntry) -> bool:
    """Whether the plan says little of where a task should be.

    A plan by estimates that are not certain is worth less than an idle core. A task that was
    displaced is not where it was planned, or not when.
    """
    return entry.spread > 0 or entry.displaced


def may_move(entry: QueueEntry, behind_seconds: float) -> bool:
    """Whether a task may leave its node if the node, or the task itself, is so far behind.

    As long as all goes as estimated, the plan is followed: to move a long task because of a short
    delay would upset the plans of two nodes.
    """
    return is_loose(entry) or is_behind(entry, behind_seconds)


def is_behind(entry: QueueEntry, seconds: float) -> bool:
    """Whether so many seconds are a delay for which a task moves."""
    return seconds > LATE_SECONDS + LATE_SHARE * entry.seconds


# --- the node's part -----------------------------------------------------------------------------


@dataclass
class OfferMover:
    parts: NodeParts
    settings: Offering
    neighbours: Neighbours
    _is_upset: bool = False  # a task that was not planned here has come: it has others' cores

    def __post_init__(self) -> None:
        world = self.parts.world
        self._company = world.kernel.flag()  # set while there is another node
        self._news = world.kernel.flag()  # set when nodes have come or gone, or are idle
        world.nodes.watch(self._news.set)
        world.nodes.watch(self._see_company)
        self._see_company()
        settings = self.settings
        self._bidding = Bidding(
            self.parts, self.neighbours, settings.neighbours, settings.bid_seconds
        )
        self._spare_offers = SpareOffers(self.parts, self._bidding, settings.spare_seconds)
        self._doubler = Doubler(
            self.parts, self._bidding, self._company, self._spare_offers.node_of
        )
        self._returner = Returner(self.parts, self._bidding)

    def _see_company(self) -> None:
        if len(self.parts.world.nodes) > 1:
            self._company.set()
        else:
            self._company.clear()

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        settings = self.settings
        volunteer = Volunteer(
            self.parts, self.neighbours, self._company,
            settings.bid_seconds, settings.pause_seconds_max,
        )  # fmt: skip
        trials = Trials(self.parts, self._company, self._doubler.look_again)
        loops = [self._relieve(), self._doubler.run(), trials.run()]
        if settings.spare_seconds < inf:
            loops.append(self._spare_offers.run())
        return [*loops, volunteer.run()] if settings.volunteers else loops

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Offer):
            self._bidding.answer(message)
        elif isinstance(message, Bid):
            self._bidding.on_bid(message)
        elif isinstance(message, KeepSpare):
            self.parts.state.attempts.keep(message.task)
        elif isinstance(message, Ask):
            self._on_ask(message)

    def _on_ask(self, message: Ask) -> None:
        self._spare_offers.idle(message.node)
        if not self._only_guesses():
            self._bidding.volunteers(message.node)
            self._news.set()
            self._doubler.offer_again()

    def _only_guesses(self) -> bool:
        """Whether nobody knows how long any of the tasks here will run.

        Then idle nodes are not given them at once: before their own tasks were ready, they took
        such that ran for hours.
        """
        state = self.parts.state
        here = [*(a.entry for a in state.attempts.under_way()), *state.queue.most_urgent(1)]
        return all(entry.spread == inf for entry in here)

    def loose_ends(self) -> dict[str, int]:
        return {"offers under way": self._bidding.under_way}

    # --- tasks that wait -------------------------------------------------------------------------

    async def _relieve(self) -> None:
        """Offer tasks that wait, again and again while there are any."""
        kernel, queue = self.parts.world.kernel, self.parts.state.queue
        pause = self.settings.pause_seconds_min
        while True:
            await self._company.wait()
            if not queue.givable and not self._unstarted():
                await queue.offered.wait()
                pause = self.settings.pause_seconds_min
                await kernel.sleep(0)  # the executor takes what it can begin
                continue
            self._news.clear()
            stays = queue.stays
            await self._returner.offer()
            gave = await self._offer_waiting()
            if gave or queue.stays != stays:
                pause = self.settings.pause_seconds_min
            else:
                pause = min(2 * pause, self.settings.pause_seconds_max)
            if await self._news.wait(pause):
                pause = self.settings.pause_seconds_min

    def _unstarted(self) -> bool:
        """Whether a task that was begun has not got its core yet."""
        return any(a.started_at is None for a in self.parts.state.attempts.under_way())

    async def _offer_waiting(self) -> bool:
        """Whether some of the tasks that wait were given to other nodes.

        Those whose inputs are here, but no core is free, are offered first; then the most urgent
        of the queue, for a short one may wait behind long ones; and the least urgent, which wait
        for all others.
        """
        state, newcomers = self.parts.state, self.parts.world.nodes.newcomers
        settings = self.settings
        half = (NEWCOMER_TASKS_MAX if newcomers else settings.tasks_max) // 2
        staged = [a.entry for a in state.attempts.under_way() if a.waits_for_core]
        first = state.queue.most_urgent(half)
        last = [entry for entry in state.queue.least_urgent(half) if entry not in first]
        waits = self._waits(staged, first, last)
        under_way = (attempt.entry for attempt in state.attempts.under_way())
        self._is_upset |= any(
            entry.displaced or entry.replica for entry in (*under_way, *first, *last)
        )
        behind = self._behind_seconds()
        late = {
            entry.task for entry in (*staged, *first, *last)
            if is_behind(entry, self._late_seconds(entry, waits[entry.task]))
        }  # fmt: skip
        movable = late | {
            entry.task for entry in (*staged, *first, *last) if may_move(entry, behind)
        }
        offered = [
            entry for entry in (*staged, *first, *last)
            if waits[entry.task] > LEAST_GAIN_SECONDS
            and entry.shelf is Shelf.SHARED
            and (newcomers or entry.task in movable)
        ]  # fmt: skip
        if not offered:
            return False
        bids = await self._bidding.bids_for(offered, newcomers)
        reserved = {entry.task: newcomers for entry in offered if entry.task not in movable}
        free = late if self._is_upset else ()
        speed = self.parts.world.speed
        overdue = {e.task: e.seconds / speed for e in offered if not may_move(e, behind)}
        share = self.settings.run_share
        chosen = winners(waits, bids, offered, share, reserved, free, overdue)
        await move(self.parts, chosen, offered)
        return bool(chosen)

    def _waits(
        self,
        staged: Sequence[QueueEntry],
        first: Sequence[QueueEntry],
        last: Sequence[QueueEntry],
    ) -> dict[TaskId, float]:
        """How long each of these tasks would wait here, the most urgent first."""
        state, world = self.parts.state, self.parts.world
        under_way, now = list(state.attempts.under_way()), world.kernel.now()
        taken = world.runner.taken_seconds()
        free = cores_free_in(under_way, world.cores, now, state.times, taken)
        waiting = sorted(a.entry for a in under_way if a.started_at is None)
        waits = starts_in([*waiting, *first], free, state.times)
        between = state.queue.load_seconds
        between -= sum(expected_seconds(entry, state.times) for entry in (*first, *last))
        after = max(between, 0.0) / world.cores
        free = [seconds + after for seconds in free]
        waits.update(starts_in(last[::-1], free, state.times))
        return waits

    def _behind_seconds(self) -> float:
        """How far this node is behind what was estimated of the tasks that it has run and runs."""
        state, now = self.parts.state, self.parts.world.kernel.now()
        under_way = state.attempts.under_way()
        overdue = sum(overrun_seconds(attempt, now, state.times) for attempt in under_way)
        return (state.overrun_seconds + overdue) / self.parts.world.cores

    def _late_seconds(self, entry: QueueEntry, wait_seconds: float) -> float:
        """By how much a task that waits so long would start after the last moment of its plan.

        How long it waits is a forecast that is too long where tasks wait for their inputs. So where
        only tasks run that were planned here, a task is late only by what has passed already.
        The kernel's time and a task's priority both count from the beginning of the run.
        """
        now = self.parts.world.kernel.now()
        if not self._is_upset:
            return (1 - LATE_RUN_SHARE) * now - entry.priority
        return now + wait_seconds - entry.priority
