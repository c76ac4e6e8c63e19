"""Serves files to other nodes in turn, and names other holders of a file to those that wait.

A file that many nodes want at once would take all of them as long as sending it so many times: its
holder's link is shared by all, and until the end nobody else can help. Sent to one node after
another, a file has twice as many holders after each transfer. The holder that is asked keeps count
of them, and names one to a node that waits.

Everything here is advice. A node that hears nothing tries another holder, and one that was told
nothing of an end forgets the transfer after a while: messages may be lost.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from dataward.model.ids import NodeId
from dataward.model.messages import FetchOver, HoldOn, MayFetch, WantFile
from dataward.model.workflow import FileId
from dataward.node.settings import NodeSettings
from dataward.world import World

Recipient = tuple[NodeId, int]
"""A node and the number of its question"""

SILENT_ROUNDS = 3  # rounds of questions after which a node that says nothing is forgotten


@dataclass(slots=True)
class _Request:
    """A node that wants a file: it waits, or was told to fetch the file from ``source``."""

    file: FileId
    line: "_Line"
    heard_at: float
    source: NodeId | None = None

    def hear(self, now: float) -> None:
        self.heard_at = now

    def grant(self, source: NodeId) -> None:
        self.source = source


@dataclass(slots=True)
class _Popular:
    """A file that nodes want: those that wait for it, and those that have been sent it."""

    waiting: list[tuple[float, int, Recipient]] = field(default_factory=list)  # a heap
    idle: list[NodeId] = field(default_factory=list)  # they have the file, and send it to nobody
    requests: int = 0

    def wait(self, place: tuple[float, int, Recipient]) -> None:
        self.requests += 1
        heappush(self.waiting, place)

    def end(self) -> None:
        self.requests -= 1


@dataclass(slots=True)
class _Line:
    """Nodes that wait for a file from here, and how many fetch one."""

    waiting: list[tuple[float, int, Recipient]] = field(default_factory=list)  # a heap
    uploads: int = 0

    def begin_upload(self) -> None:
        self.uploads += 1

    def end_upload(self) -> None:
        self.uploads -= 1


class Serving:
    """Lets ``uploads_max`` nodes at a time fetch files from here, the most urgent first.

    Large files and others have a line each, or a file of a moment would wait for one of hours. A
    node that has fetched a file is named as its source to one other node at a time.
    """

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._world = world
        self._uploads_max = settings.uploads_max
        self._silent_seconds = SILENT_ROUNDS * settings.ask_again_seconds
        self._requests: dict[Recipient, _Request] = {}
        self._files: dict[FileId, _Popular] = {}
        self._lines = {True: _Line(), False: _Line()}  # by whether their files are large
        self._arrivals = 0
        self._sweep_at = 0.0  # when to look for silent nodes next

    def loose_ends(self) -> dict[str, int]:
        """How many nodes wait for a file or fetch one, as far as this node knows."""
        self._forget_silent(self._world.kernel.now())
        return {"nodes that want files": len(self._requests)}

    def on_want(self, message: WantFile) -> None:
        """Let a node fetch a file, now or later; a node that asks again is still there."""
        recipient, now = (message.node, message.number), self._world.kernel.now()
        request = self._requests.get(recipient)
        if request is None:
            line = self._lines[message.is_large]
            request = self._requests[recipient] = _Request(message.file, line, now)
            self._arrivals += 1
            place = (message.urgency, self._arrivals, recipient)
            self._files.setdefault(message.file, _Popular()).wait(place)
            heappush(line.waiting, place)
        elif request.source is not None:
            self._tell(recipient, request.source)  # the first answer may be lost
        request.hear(now)
        if now >= self._sweep_at:
            self._sweep_at = now + self._silent_seconds
            self._forget_silent(now)
        self._serve(request)
        if request.source is None:
            self._world.network.send(message.node, HoldOn(message.number))

    def on_over(self, message: FetchOver) -> None:
        """A node has a file now, or wants it no more."""
        recipient = (message.node, message.number)
        request = self._requests.get(recipient)
        if request is None:
            return
        source, popular = request.source, self._files[request.file]
        if message.arrived:
            popular.idle.append(message.node)
        if source is not None and source != self._world.node and message.arrived:
            popular.idle.append(source)
        self._end(recipient)
        self._serve(request)

    # --- turns -----------------------------------------------------------------------------------

    def _serve(self, changed: _Request) -> None:
        """Name a source to every node that need not wait any longer, now that a request changed."""
        popular, line = self._files.get(changed.file), changed.line
        while popular is not None and popular.idle:
            recipient = self._next(popular.waiting)
            if recipient is None:
                break
            self._grant(recipient, popular.idle.pop())
        while line.uploads < self._uploads_max:
            recipient = self._next(line.waiting)
            if recipient is None:
                break
            line.begin_upload()
            self._grant(recipient, self._world.node)

    def _next(self, waiting: list[tuple[float, int, Recipient]]) -> Recipient | None:
        """The most urgent that still waits; it is taken out."""
        while waiting:
            recipient = heappop(waiting)[2]
            request = self._requests.get(recipient)
            if request is not None and request.source is None:
                return recipient
        return None

    def _grant(self, recipient: Recipient, source: NodeId) -> None:
        request = self._requests[recipient]
        request.grant(source)
        request.hear(self._world.kernel.now())
        self._tell(recipient, source)

    def _tell(self, recipient: Recipient, source: NodeId) -> None:
        self._world.network.send(recipient[0], MayFetch(recipient[1], source))

    # --- ends ------------------------------------------------------------------------------------

    def _end(self, recipient: Recipient) -> None:
        request = self._requests.pop(recipient)
        if request.source == self._world.node:
            request.line.end_upload()
        popular = self._files[request.file]
        popular.end()
        if not popular.requests:
            del self._files[request.file]
        if not self._requests:
            for line in self._lines.values():
                line.waiting.clear()

    def _forget_silent(self, now: float) -> None:
        """Forget nodes that have said nothing for long: they are dead, or their end was lost."""
        for recipient, request in list(self._requests.items()):
            if request.heard_at + self._silent_seconds <= now:
                self._end(recipient)
