"""MATRIX's choice of a policy at run time, by how much data is moved (its section 4.4).

"The DAWS technique could always start with the FLDS policy [...] If too much data is transferred,
the technique would switch to the MDL policy; on the other hand, the technique would switch to the
MLB policy if few data is transmitted." How much that is, the paper leaves open. Here it is the time
for which tasks wait for inputs from other nodes, beside the time for which they run. And a node
goes one step at a time: that little is moved under MDL is no sign that MLB would move little too.
"""

from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from dataward.model.events import PolicyChanged
from dataward.node.flexible import FlexibleStealing, Sharer, TimeThreshold
from dataward.node.learned import Learned
from dataward.node.mover import NodeParts
from dataward.node.stealing import StealMover, Victim


class Policy(Enum):
    """How a node weighs load against data, from the policy that moves most data to the least."""

    MLB = "mlb"  # maximized load balancing: all tasks are shared
    FLDS = "flds"  # by the threshold of the home rule, and flexible
    MDL = "mdl"  # maximized data-locality: no task with data is shared


@dataclass(frozen=True, slots=True)
class SwitchingStealing(FlexibleStealing):
    """As `FlexibleStealing`, and a policy for each node, which changes with what is moved."""

    much_moved: float = 1.0  # ours: tasks wait for data for longer than they run
    little_moved: float = 0.1  # ours: they wait for data for a tenth of that
    switch_tasks: int = 16  # ours: how many tasks a node runs until it may switch again

    def at(self, parts: NodeParts) -> StealMover:
        tt = TimeThreshold(parts, self)
        thief = self.thief(parts, tt.halve, tt.is_small)
        loops = (Sharer(parts, self, tt).run, Switch(parts, self).run)
        return StealMover(thief, Victim(parts), loops)


def next_policy(policy: Policy, moved: float, settings: SwitchingStealing) -> Policy:
    """One step towards MDL if much was moved, towards MLB if little was."""
    order = list(Policy)
    step = (moved > settings.much_moved) - (moved < settings.little_moved)
    return order[min(max(order.index(policy) + step, 0), len(order) - 1)]


def moved_between(before: Learned, now: Learned) -> float:
    """For how long tasks waited for data, as a share of how long they ran."""
    run_seconds = now.run_seconds - before.run_seconds
    return (now.moving_seconds - before.moving_seconds) / max(run_seconds, 1e-9)


@dataclass
class Switch:
    """Changes the node's policy every so many tasks, if what was moved meanwhile calls for it.

    Looks only while tasks wait here: a node that has none makes no choice that matters.
    """

    parts: NodeParts
    settings: SwitchingStealing
    policy: Policy = Policy.FLDS

    def __post_init__(self) -> None:
        self._before = Learned()  # what was known at the last choice

    async def run(self) -> None:
        queue, kernel = self.parts.state.queue, self.parts.world.kernel
        while True:
            await queue.grown.wait()
            await kernel.sleep(self.settings.look_seconds)
            self.look()

    def look(self) -> None:
        """Choose anew if enough tasks have run since the last choice."""
        learned = self.parts.state.learned
        if learned.tasks - self._before.tasks < max(self.settings.switch_tasks, 1):
            return
        moved = moved_between(self._before, learned)
        self._before = replace(learned)
        policy = next_policy(self.policy, moved, self.settings)
        if policy is not self.policy:
            self._adopt(policy, moved)

    def _adopt(self, policy: Policy, moved: float) -> None:
        self.policy = policy
        threshold = {Policy.MLB: inf, Policy.FLDS: None, Policy.MDL: 0.0}[policy]
        self.parts.state.learned.tolerate(threshold, may_share=policy is not Policy.MDL)
        world = self.parts.world
        world.emit(PolicyChanged(world.kernel.now(), world.node, policy.value, moved))
