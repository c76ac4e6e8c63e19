"""How much healing the trouble of a run explains. More than that means that the node is at fault.

One function for each thing that `Healing` counts. In fair weather all of them give 0. Where faults
were injected they leave slack, for one fault sets off others; what they never excuse is healing of
a kind that no fault of the run can have called for.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf

from dataward.sim.healing import Healing, SeenTrouble
from dataward.sim.invariants import InvariantBroken

ASKED_AGAIN_SECONDS = 20.0  # the longest pause between two questions of a node without work


@dataclass(frozen=True, slots=True)
class HealedRun:
    """What a run healed and suffered, and the measures of the run that bounds are made of."""

    healing: Healing
    trouble: SeenTrouble
    tasks: int
    nodes: int
    renewal_seconds: float
    is_sampled: bool = False  # whether tasks are offered to some nodes only, drawn at random

    @property
    def deaths(self) -> int:
        """How often a node lost all that it held, by a crash or with its lease.

        The last two nodes that leave may both find nobody: one sends what it has to the other.
        """
        return self.trouble.crashes + self.healing.leases_lost + 2 * self.trouble.deserted

    @property
    def given_up(self) -> int:
        """How many attempts ended before their tasks; their tasks are queued once more.

        One that was sent on is queued by its node, and if nothing goes wrong by nobody else.
        """
        is_troubled = self.deaths or self.trouble.hindrances
        return self.trouble.interrupted + (self.trouble.sent_on if is_troubled else 0)


def repeated(run: HealedRun) -> float:
    """A task runs again if its attempt was interrupted, taken for dead, or its end forgotten."""
    return run.trouble.interrupted + run.healing.doubled + run.tasks * run.trouble.forgets


def doubled(run: HealedRun) -> float:
    """A task is queued anew while it waits elsewhere: taken over, given up, or counted anew.

    A node that dies while it hands tasks over has them in two queues if it comes back soon.
    """
    anew = run.trouble.forgets * (1 + run.trouble.partitions)
    anew += run.trouble.left if run.trouble.crashes else 0
    return run.healing.taken_over + run.given_up + run.tasks * anew


def reopened(run: HealedRun) -> float:
    """One fault hides the outputs of one node, or takes one; at worst all were there.

    What an earlier run had written, and is gone, is made again once a task needs it. A node that
    leaves may find no other that has room for its files, or that hears of them.
    """
    trouble = run.trouble
    hiding = trouble.mutes + trouble.partitions + trouble.spoils + trouble.forgets
    if trouble.full_disks or trouble.lost_messages:
        hiding += trouble.left
    return run.tasks * (run.deaths + hiding) + trouble.absent


def needless(run: HealedRun) -> float:
    """Files that are there are given up only if they were out of reach a moment ago.

    A node that comes back, serves again or is reached again does so while others still ask for
    its files; a shard that forgets forgets where they are, and one that does not answer is not
    told in time.
    """
    trouble = run.trouble
    hiding = trouble.mutes + trouble.partitions + trouble.spoils + trouble.forgets
    return 2 * trouble.crashes + run.tasks * hiding + trouble.failed_calls


def taken_over(run: HealedRun) -> float:
    """Each death leaves at most all tasks; one that was given up may be sent to the dead again.

    So may all whose parents had to run again. A node that cannot reach the store to join counts as
    dead, though others can reach it; so does one whose last renewal a shard forgot just when its
    lease had run out, until it joins again. Who has not heard that a node has left may send it any.
    """
    trouble = run.trouble
    unjoined = trouble.unjoined if trouble.partitions or trouble.failed_calls else 0
    again = run.given_up + trouble.postponed + run.tasks * (run.healing.reopened > 0)
    ends = run.deaths + unjoined + trouble.forgets + trouble.left
    return (run.tasks + again) * ends


def taken_again(run: HealedRun) -> float:
    """An attempt that died is found with its node's tasks and again as one to ask after.

    A task that had to wait anew, or whose parent ran again, or whose shard forgot where it is, is
    queued at its dead node once more; what was not answered is repeated; so is what a node had
    begun to take over when it died. Who leaves may send tasks to a node that is down; while all
    leave, patrols send them to those that have left.
    """
    trouble = run.trouble
    ended = trouble.died + run.given_up + trouble.postponed
    anew = run.healing.leases_lost + trouble.forgets + max(run.deaths - 1, 0)
    anew += 2 * trouble.deserted + min(trouble.left, trouble.crashes)
    anew += run.healing.reopened > 0
    return 2 * ended + run.tasks * anew + run.deaths * trouble.failed_calls


def leases_lost(run: HealedRun) -> float:
    """A partition cuts each node off at most once; a shard that forgets may forget its nodes."""
    trouble = run.trouble
    return run.nodes * (trouble.partitions + trouble.forgets) + trouble.failed_calls / 8


def undelivered(run: HealedRun) -> float:
    """Only who dies or is not heard leaves notices; only what lost its node waits to be placed.

    That a removed task's children are to be told is said once, in a message: in vain if it goes to
    a node that has left.
    """
    healing, trouble = run.healing, run.trouble
    placed = healing.taken_over + healing.reopened + run.given_up
    lost = trouble.lost_messages + trouble.removals * trouble.left
    unheard = trouble.failed_calls + min(trouble.removals, lost)
    return 8 * run.deaths + placed + unheard + run.tasks * trouble.forgets


def mistaken(run: HealedRun) -> float:
    """An attempt that ended is asked after only if the store was not told, or forgot."""
    trouble = run.trouble
    ended = run.given_up + trouble.died
    return 2 * ended + trouble.failed_calls + run.tasks * trouble.forgets


def outlived(run: HealedRun) -> float:
    """Rivals go on if the word to stop was lost, or nobody lived to send it."""
    trouble = run.trouble
    unsaid = trouble.lost_messages + trouble.failed_calls + run.tasks * trouble.forgets
    return unsaid + 8 * run.deaths


def moved_again_bytes(run: HealedRun) -> float:
    """A file is fetched to where it is also made only if its maker runs once more.

    What has gone behind a node's back is fetched again from whoever has another copy.
    """
    explained = run.healing.repeated or run.healing.reopened or run.trouble.spoils
    return inf if explained else 0


def late_load_seconds(run: HealedRun) -> float:
    """A report waits for a call that is repeated; each failure costs its pause and its answer."""
    return 15 * run.trouble.failed_calls + run.renewal_seconds * run.trouble.forgets


def waited_seconds(run: HealedRun) -> float:
    """A node that missed a hint looks when it renews its lease, or when the call gets through.

    A node that dies may owe a hint to every other.
    """
    trouble = run.trouble
    missed = trouble.lost_messages + run.nodes * (run.deaths + trouble.forgets)
    return run.renewal_seconds * missed + 15 * trouble.failed_calls


def idled_seconds(run: HealedRun) -> float:
    """Who asks and is not heard, or asks the dead, asks again; a call must get through first.

    A task that is offered to some nodes only may have to wait for one of them, whoever else has
    nothing to run. Nodes whose replicas of a task gave up, since an input was absent, are offered
    the task again only when the replicas have been found to be lost.
    """
    if run.is_sampled:
        return inf
    trouble = run.trouble
    changes = trouble.late + trouble.left  # whoever has not heard asks those who keep no tasks now
    unheard = trouble.lost_messages + run.nodes * (run.deaths + trouble.forgets + changes)
    return ASKED_AGAIN_SECONDS * (unheard + trouble.absent) + 15 * trouble.failed_calls


BOUNDS: dict[str, Callable[[HealedRun], float]] = {
    bound.__name__: bound
    for bound in (
        repeated, doubled, reopened, needless, taken_over, taken_again, leases_lost, undelivered,
        mistaken, outlived, moved_again_bytes, late_load_seconds, waited_seconds,
        idled_seconds,
    )
}  # fmt: skip


def check_healing(run: HealedRun, seed: int) -> None:
    """Raises InvariantBroken if a run healed more than its trouble explains."""
    for field in fields(Healing):
        seen, most = getattr(run.healing, field.name), BOUNDS[field.name](run)
        if seen > most:
            raise InvariantBroken(
                f"{field.name} is {seen:g}, but what happened to seed {seed} explains {most:g}"
            )
    if run.trouble.interrupted and not (run.deaths or run.trouble.hindrances):
        raise InvariantBroken(
            f"{run.trouble.interrupted} attempts were given up, but nothing happened to seed {seed}"
        )
