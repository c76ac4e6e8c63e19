"""Trials: a node times a small computation now and then, to know how fast its machine is.

A machine may become much slower for a while: because it is too hot, or because others have its
processors. Tasks that run for hours would tell of that too late, and a node without tasks not at
all. What follows from it is told in `bidding` and `doubling`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dataward.node.mover import NodeParts
from dataward.world import Flag

PAUSE_SECONDS = 10.0
SURE_SECONDS = 1.0  # after a trial that took long, another one says whether that was chance


@dataclass
class Trials:
    """Has a trial now and then; ``on_slow`` is called when the node has become slow."""

    parts: NodeParts
    company: Flag  # set while there is another node
    on_slow: Callable[[], None]

    async def run(self) -> None:
        world, pace = self.parts.world, self.parts.state.pace
        while True:
            await self.company.wait()
            was_slow = pace.is_slow
            differs = pace.note(await world.runner.trial())
            if pace.is_slow and not was_slow:
                self.on_slow()
            await world.kernel.sleep(SURE_SECONDS if differs else PAUSE_SECONDS)
