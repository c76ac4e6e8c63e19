"""A node with an idle core and nothing to run says so to a few others, which may have too much.

Without that, a core would stay idle until some node that is behind happens to offer tasks again.
"""

from dataclasses import dataclass

from dataward.model.messages import Ask
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbours
from dataward.world import Flag

TAKEN_SECONDS = 1.0  # after which a node whose cores others have looks whether they still do


@dataclass
class Volunteer:
    """Asks other nodes than the last time, ever more rarely while nothing comes of it."""

    parts: NodeParts
    neighbours: Neighbours
    company: Flag  # set while there is another node
    pause_seconds_min: float
    pause_seconds_max: float

    async def run(self) -> None:
        queue, attempts = self.parts.state.queue, self.parts.state.attempts
        pause = self.pause_seconds_min
        while True:
            await self.company.wait()
            await queue.hungry.wait()
            if not self._idle_cores:  # hungry only for what it could bring in ahead
                await attempts.one_moved_on(TAKEN_SECONDS if self._taken else None)
                pause = self.pause_seconds_min
                continue
            self._ask()
            has_come = await queue.grown.wait(pause)
            pause = self.pause_seconds_min if has_come else min(2 * pause, self.pause_seconds_max)

    @property
    def _idle_cores(self) -> int:
        state, cores = self.parts.state, self.parts.world.cores
        return max(cores - len(state.attempts) - len(state.queue) - self._taken, 0)

    @property
    def _taken(self) -> int:
        return len(self.parts.world.runner.taken_seconds())

    def _ask(self) -> None:
        world = self.parts.world
        if self.parts.state.identity.joined:
            for node in self.neighbours.draw():
                world.network.send(node, Ask(world.node, self._idle_cores))
