"""A node with an idle core and nothing to run says so to a few others, which may have too much.

Without that, a core would stay idle until some node that is behind happens to offer tasks again.
"""

from dataclasses import dataclass

from dataward.model.messages import Ask
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbours
from dataward.world import Flag


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
                await attempts.one_moved_on()
                pause = self.pause_seconds_min
                continue
            self._ask()
            has_come = await queue.grown.wait(pause)
            pause = self.pause_seconds_min if has_come else min(2 * pause, self.pause_seconds_max)

    @property
    def _idle_cores(self) -> int:
        state = self.parts.state
        return max(self.parts.world.cores - len(state.attempts) - len(state.queue), 0)

    def _ask(self) -> None:
        world = self.parts.world
        if self.parts.state.identity.joined:
            for node in self.neighbours.draw():
                world.network.send(node, Ask(world.node, self._idle_cores))
