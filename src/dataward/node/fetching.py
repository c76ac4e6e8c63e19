"""Fetches files: from which node, how many at a time, and what is tried when that fails."""

from dataclasses import dataclass, field
from math import inf

from dataward.model.answers import Standing
from dataward.model.ids import NOWHERE, ORIGIN, NodeId
from dataward.model.messages import FetchOver, HoldOn, MayFetch, WantFile
from dataward.model.operations import Copy, InputFile, Look
from dataward.model.workflow import FileId, TaskId
from dataward.node.relays import Relays
from dataward.node.settings import NodeSettings
from dataward.node.slots import Slots
from dataward.node.sources import SourceRates
from dataward.node.store_client import StoreClient
from dataward.node.unserved import UnservedFiles
from dataward.world import DiskFull, Flag, InputLost, TimedOut, TransferFailed, Unserved, World

_Told = tuple[NodeId, WantFile]

DETOURS_MAX = 4  # sources that a node is sent on to, one after another, before it goes on by itself


@dataclass
class _Question:
    """A question whether a file may be fetched; ``source`` is the answer."""

    heard: Flag  # set when the node that was asked has said something
    answered: Flag
    source: NodeId | None = None

    def ask(self) -> None:
        self.heard.clear()

    def hear(self) -> None:
        self.heard.set()

    def answer(self, source: NodeId) -> None:
        self.source = source
        self.answered.set()


@dataclass
class Fetcher:
    """Has ``transfers_max`` files come at a time, of ``window_bytes`` in all, most urgent first.

    A large file alone keeps a link busy: with another beside it, both would come late. Files of
    less than ``large_bytes`` do not count: many must be under way at once, for each takes a round
    trip besides, and none should wait while a large file waits for its source. Those that travel
    together take no turn at all: the more are asked for at once, the fewer the trips.

    For a turn at the source, files are asked for from ``asked_bytes`` on, which is less: if many
    nodes want a file at once, its holder sends it to one after another, and these send it on.
    """

    world: World
    settings: NodeSettings
    store: StoreClient
    relays: Relays = field(default_factory=Relays)
    _questions: dict[int, _Question] = field(default_factory=dict)
    _asked: int = 0

    def __post_init__(self) -> None:
        self._transfers = Slots(self.world.kernel, self.settings.transfers_max)
        self._window = Slots(self.world.kernel, self.settings.window_bytes)
        self._rates = SourceRates(self.world.network)
        self._unserved = UnservedFiles(self.settings.lost_input_seconds)
        self._in_window: list[float] = []  # the urgencies of large files on their way

    def loose_ends(self) -> dict[str, int]:
        return {
            "transfers under way": round(self._transfers.total - self._transfers.free),
            "questions for files": len(self._questions),
        }

    async def turn(self, urgency: float, file: InputFile) -> None:
        """Wait until one more file may come; `over` must be called after that."""
        if self._travels_with_others(file):
            return
        await self._enter_window(urgency, file)
        try:
            await self._transfers.take(1, urgency)
        except BaseException:
            self._leave_window(urgency, file)
            raise

    def over(self, urgency: float, file: InputFile) -> None:
        if self._travels_with_others(file):
            return
        self._transfers.give_back()
        self._leave_window(urgency, file)

    async def _enter_window(self, urgency: float, file: InputFile) -> None:
        """Wait for a share of the window, unless the file is more urgent than all that have one.

        Beside a file of hours it comes in twice the time, and delays that by no more than it takes.
        """
        share = self._share(urgency, file)
        if not share:
            return
        if self._in_window and urgency < min(self._in_window):
            self._window.take_at_once(share)
        else:
            await self._window.take(share, urgency)
        self._in_window.append(urgency)

    def _leave_window(self, urgency: float, file: InputFile) -> None:
        if share := self._share(urgency, file):
            self._window.give_back(share)
            self._in_window.remove(urgency)

    def _travels_with_others(self, file: InputFile) -> bool:
        return file.size_bytes < self.world.network.together_bytes

    def _share(self, urgency: float, file: InputFile) -> float:
        """How much of the window a file takes: none if no task has asked for it yet.

        Otherwise what a task needs now would wait for hours behind what comes ahead of its time.
        """
        is_counted = self._is_large(file) and urgency < inf
        return min(file.size_bytes, self._window.total) if is_counted else 0

    def _is_large(self, file: InputFile) -> bool:
        return file.size_bytes >= self.settings.large_bytes

    # --- where from ------------------------------------------------------------------------------

    async def sources(
        self, files: list[InputFile], hints: tuple[Copy, ...]
    ) -> dict[FileId, list[NodeId]]:
        """The nodes to try for each file.

        The notice of a parent's end also said where the parent's files are. There is no notice for
        an input of the workflow: for that, the store is asked.
        """
        sources: dict[FileId, list[NodeId]] = {file.id: [] for file in files}
        for copy in hints:
            if copy.file in sources and copy.node != NOWHERE:
                sources[copy.file].append(copy.node)
        unknown = [f for f in files if not (sources[f.id] or self._is_from_origin(f))]
        if unknown:
            await self._look(unknown, sources)
        return sources

    def _is_from_origin(self, file: InputFile) -> bool:
        return self.settings.inputs_from_origin and not file.producer

    async def committed(self, files: list[InputFile]) -> tuple[Copy, ...]:
        """The copies of these files that their producers last committed, as the store has them."""
        if not files:
            return ()
        answers = await self.store.call([Look(TaskId(file.producer)) for file in files])
        return tuple(
            copy
            for file, answer in zip(files, answers, strict=True)
            if isinstance(answer, Standing)
            for copy in answer.copies
            if copy.file == file.id
        )

    async def _look(self, files: list[InputFile], into: dict[FileId, list[NodeId]]) -> None:
        answers = await self.store.call([Look(TaskId(file.producer or file.id)) for file in files])
        for file, answer in zip(files, answers, strict=True):
            assert isinstance(answer, Standing)
            into[file.id] = [
                copy.node for copy in answer.copies if copy.file == file.id and copy.node != NOWHERE
            ]

    # --- fetching --------------------------------------------------------------------------------

    async def fetch(self, urgency: float, file: InputFile, sources: list[NodeId]) -> None:
        """Try every known copy, in random order so that the load spreads, several times over.

        The origin, which all share, comes last, and so do sources that are known to be slow and,
        after them, nodes that could not be reached a moment ago. Raises InputLost, Unserved or
        DiskFull.
        """
        order: list[NodeId] = []
        why = ""
        # Many tasks may read an input that is lost: each asks once more, but not for long.
        is_lost = self._unserved.seconds(file.id) > 0
        for round_ in range(1 if is_lost else self.settings.fetch_rounds):
            if round_:
                if order:  # they may serve it later; with nobody known, waiting is in vain
                    await self.world.kernel.sleep(self.settings.retry_seconds * 2**round_)
                sources = (await self.sources([file], ()))[file.id]
            order = sorted(node for node in set(sources) if node != self.world.node)
            self.world.random.shuffle(order)
            if not file.producer and ORIGIN not in order:
                order.append(ORIGIN)
            if len(order) > 1 and self.settings.quickest_source:
                order = self._rates.quickest_first(order)
            if order and order[0] == ORIGIN and file.size_bytes >= self.settings.asked_bytes:
                order = [*self.relays.to_ask(file, self.world.node), *order]
            order.sort(key=self.world.network.doubts)
            for source in order:
                try:
                    await self._fetch_from(source, urgency, file)
                    self._unserved.came(file.id)
                    return
                except TransferFailed as failure:
                    why = str(failure) if source == ORIGIN else why
        if file.producer:
            raise InputLost([file])
        self._unserved.failed(file.id, self.world.kernel.now())
        holders = sorted(set(sources) - {ORIGIN})
        raise Unserved(file.id, holders, why, lost_seconds=self._unserved.seconds(file.id))

    async def _fetch_from(self, source: NodeId, urgency: float, file: InputFile) -> None:
        if file.size_bytes < self.settings.asked_bytes:
            await self.world.network.fetch(file, source)
        elif not self.settings.uploads_max:
            await self._fetch_now(source, file)
        else:
            await self._ask_and_fetch(source, urgency, file)

    async def _fetch_now(self, source: NodeId, file: InputFile) -> None:
        began = self.world.kernel.now()
        with self.relays.coming(file.id):
            await self.world.network.fetch(file, source)
        if self._is_large(file):  # smaller ones come several at a time
            self._rates.saw(source, file.size_bytes, self.world.kernel.now() - began)

    # --- asking ----------------------------------------------------------------------------------

    async def _ask_and_fetch(
        self, source: NodeId, urgency: float, file: InputFile, told: tuple[_Told, ...] = ()
    ) -> None:
        """Fetch the file from a node when that lets us, or from the node that it names instead.

        ``told`` are the nodes that have sent us on so far, and what we told them.
        """
        if source == ORIGIN:  # which is no node: there is nobody to ask
            await self._fetch_now(source, file)
            return
        self._asked += 1
        want = WantFile(self.world.node, self._asked, file.id, urgency, self._is_large(file))
        now_told = (*told, (source, want))
        question = self._questions[want.number] = _Question(
            self.world.kernel.flag(), self.world.kernel.flag()
        )
        arrived = declined = False
        try:
            named = await self._answer(question, now_told)
            declined = named != source and self._is_declined(named, source)
            if named == source or len(now_told) > DETOURS_MAX:
                await self._fetch_while_saying_so(file, now_told)
            elif not declined:
                await self._ask_and_fetch(named, urgency, file, now_told)
            arrived = not declined
        finally:
            del self._questions[want.number]
            self.world.network.send(source, FetchOver(want.node, want.number, arrived))
        if declined:
            # The source does not name that node again: nobody else has to wait for it.
            await self._ask_and_fetch(source, urgency, file, told)

    def _is_declined(self, named: NodeId, source: NodeId) -> bool:
        """Whether a node had better wait for the source than fetch from the one that was named."""
        return self.settings.quickest_source and self._rates.is_much_slower(named, source)

    async def _answer(self, question: _Question, told: tuple[_Told, ...]) -> NodeId:
        """The node from which the file may be fetched; the last of those told says so.

        A node that says nothing is itself the answer: if it is dead, fetching fails at once, and if
        only a message was lost, waiting would be in vain.
        """
        to_tell = told[-1:]  # the others have just sent us on
        while question.source is None:
            question.ask()
            self._say(to_tell)
            to_tell = told
            if not await question.heard.wait(self.settings.silent_seconds):
                return told[-1][0]
            await question.answered.wait(self.settings.ask_again_seconds)
        return question.source

    async def _fetch_while_saying_so(self, file: InputFile, told: tuple[_Told, ...]) -> None:
        fiber = self.world.kernel.spawn(self._try(file, told[-1][0]), f"fetch {file.id}")
        try:
            while True:
                try:
                    failure = await fiber.join(self.settings.ask_again_seconds)
                    break
                except TimedOut:
                    self._say(told)
        finally:
            fiber.cancel()
        if failure is not None:
            raise failure

    def _say(self, told: tuple[_Told, ...]) -> None:
        for node, want in told:
            self.world.network.send(node, want)

    async def _try(self, file: InputFile, source: NodeId) -> TransferFailed | DiskFull | None:
        try:
            await self._fetch_now(source, file)
        except (TransferFailed, DiskFull) as failure:
            return failure
        return None

    def on_message(self, message: MayFetch | HoldOn) -> None:
        question = self._questions.get(message.number)
        if question is None:
            return
        question.hear()
        if isinstance(message, MayFetch):
            question.answer(message.source)
