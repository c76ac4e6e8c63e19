"""Brings files into the depot before a task needs them, while the node fetches nothing else.

Which files, others say: the plan of a strategy, before the run. Nothing depends on it: a task whose
inputs are not there fetches them, as ever.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field

from dataward.model.operations import InputFile
from dataward.model.workflow import FileId
from dataward.node.depot import Depot
from dataward.world import World

TOGETHER_MAX = 256  # small files that are brought in at once


@dataclass
class Stocker:
    """One file at a time, in the order in which they were asked for; small ones travel together.

    A file is begun only while no task here waits for a transfer. Once begun it is not broken off:
    a task that comes meanwhile shares the link with it, or waits for that very file.
    """

    world: World
    depot: Depot
    _wanted: dict[FileId, InputFile] = field(default_factory=dict)
    _kept: set[FileId] = field(default_factory=set)  # of those wanted

    def __post_init__(self) -> None:
        self._work = self.world.kernel.flag()

    def stock(self, files: Sequence[InputFile], *, keep: bool = False) -> None:
        """Bring these files in soon, after those asked for before; perhaps for ever."""
        for file in files:
            self._wanted.setdefault(file.id, file)
            if keep:
                self._kept.add(file.id)
        if self._wanted:
            self._work.set()

    def take_over(self, files: Sequence[InputFile]) -> None:
        """Bring these files in at once, and keep them: the node that has them leaves."""
        self.world.kernel.spawn(self._bring(files), f"{self.world.node} takes over files")

    async def _bring(self, files: Sequence[InputFile]) -> None:
        await self.depot.has_recovered.wait()  # or a file that comes now would count twice
        for file in files:
            await self.depot.stock(file, for_good=True)

    def _next(self) -> list[InputFile]:
        """The file that is next; if it is small, all small ones that come right behind it."""
        found: list[InputFile] = []
        together_bytes = self.world.network.together_bytes
        for file in self._wanted.values():
            if found and (file.size_bytes >= together_bytes or len(found) == TOGETHER_MAX):
                break
            found.append(file)
            if file.size_bytes >= together_bytes:
                break
        for file in found:
            del self._wanted[file.id]
        return found

    def loose_ends(self) -> dict[str, int]:
        return {"files to bring in ahead": len(self._wanted)}

    async def run(self) -> None:
        while True:
            await self._work.wait()
            await self.depot.is_quiet.wait()
            stocks = [self._stock(file) for file in self._next()]
            if len(stocks) == 1:
                await stocks[0]
            else:
                await self._all(stocks)
            if not self._wanted:
                self._work.clear()

    async def _stock(self, file: InputFile) -> None:
        keep = file.id in self._kept
        self._kept.discard(file.id)
        await self.depot.stock(file, keep=keep)

    async def _all(self, stocks: Sequence[Coroutine[None, None, None]]) -> None:
        fibers = [self.world.kernel.spawn(each, "files are brought in ahead") for each in stocks]
        try:
            for fiber in fibers:
                await fiber.join()
        finally:
            for fiber in fibers:
                fiber.cancel()
