"""MATRIX's FLDS: tasks that only this node may run are shared when they would wait for too long.

Section 2.2.2 has the time threshold tt and how many tasks to share; section 4.4 doubles tt when
tasks are shared, halves it when stealing fails, and lets a thief that had stopped go on once tt is
small enough.
"""

from dataclasses import dataclass

from dataward.errors import SettingError
from dataward.node.mover import NodeParts
from dataward.node.stealing import Stealing, StealMover, Victim

TT_SECONDS_MIN = 0.001  # ours: halving stops here


@dataclass(frozen=True, slots=True)
class FlexibleStealing(Stealing):
    """Work stealing as `Stealing`, and FLDS; the default of tt is that of MATRIX's section 4.2."""

    tt_seconds: float = 10.0  # "the time threshold tt of the FLDS policy to 10 sec"
    tt_seconds_small: float = 1.0  # ours: "small enough" for a thief to go on
    look_seconds: float = 1.0  # ours: between two looks at the tasks that only this node may run

    def __post_init__(self) -> None:
        # No super(): a dataclass with slots is another class than the one that super() means.
        Stealing.__post_init__(self)
        if not self.look_seconds > 0:
            raise SettingError("a node with look_seconds 0 would never rest; give more than 0")

    def at(self, parts: NodeParts) -> StealMover:
        tt = TimeThreshold(parts, self)
        thief = self.thief(parts, tt.halve, tt.is_small)
        return StealMover(thief, Victim(parts), (Sharer(parts, self, tt).run,))


def tasks_to_share(kept: int, done: int, seconds: float, tt_seconds: float) -> int:
    """How many of the tasks that only this node may run are to be shared.

    The node has done so many tasks in so many seconds. If those it keeps would take longer than tt
    at that rate, the share of the time beyond tt is the share of the tasks to give up.
    """
    throughput = done / seconds
    run_seconds = kept / throughput
    if run_seconds <= tt_seconds:
        return 0
    return int(kept * (run_seconds - tt_seconds) / run_seconds)


class TimeThreshold:
    """One node's tt. ``is_small`` is set while tt is small enough for a stopped thief to go on."""

    def __init__(self, parts: NodeParts, settings: FlexibleStealing) -> None:
        self._small = settings.tt_seconds_small
        self.seconds = settings.tt_seconds
        self.is_small = parts.world.kernel.flag()
        self._set(settings.tt_seconds)

    def double(self) -> None:
        self._set(self.seconds * 2)

    def halve(self) -> None:
        self._set(self.seconds / 2)

    def _set(self, seconds: float) -> None:
        self.seconds = max(seconds, TT_SECONDS_MIN)
        if self.seconds <= self._small:
            self.is_small.set()
        else:
            self.is_small.clear()


@dataclass
class Sharer:
    """Looks at the tasks that only this node may run, and shares some if they would wait too long.

    ``done`` counts the tasks that have ended since the first of them came, and those under way as
    if they ended now: so a node whose first tasks are long does not wait for the end of one of
    them, and yet never believes itself slower than it is.
    """

    parts: NodeParts
    settings: FlexibleStealing
    tt: TimeThreshold

    async def run(self) -> None:
        while True:
            await self.parts.state.queue.confined.wait()
            await self._watch()

    async def _watch(self) -> None:
        """Look again and again, until no task is kept."""
        state, kernel = self.parts.state, self.parts.world.kernel
        began, ran = kernel.now(), state.learned.tasks
        while state.queue.kept:
            await kernel.sleep(self.settings.look_seconds)
            done = state.learned.tasks - ran + len(state.attempts)
            self._share(max(done, 1), kernel.now() - began)

    def _share(self, done: int, seconds: float) -> None:
        state = self.parts.state
        if not state.learned.may_share:
            return
        tasks = tasks_to_share(state.queue.kept, done, seconds, self.tt.seconds)
        if tasks:
            state.queue.offer_kept(tasks)
            state.outbox.load_changed()
            self.tt.double()
