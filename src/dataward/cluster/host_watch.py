"""Notices at once when the process of another host has ended, by its closed connections.

Each host keeps one silent connection open to each of the two members that come after it by name.
The system closes a connection when the process at its other end is gone. If a new one is refused,
nobody listens there any more: that member is gone. A whole machine that goes silent closes nothing:
its lease tells, and if it does not answer then either, it is gone.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import aiohttp

from dataward.live.credentials import Credentials, Role
from dataward.model.ids import NodeId
from dataward.model.members import Member

log = logging.getLogger(__name__)

ALIVE_PATH = "/alive"
NODE_HEADER = "X-Dataward-Node"  # whose host answers
WATCHED = 2  # so that one that is gone with its watcher is noticed too
CONNECT_SECONDS = 5.0
RETRY_SECONDS = 5.0  # after a connection that could not be made, but was not refused
RESET_SECONDS = 0.05  # after one that was reset while it was made; twice as long each time
ANSWER_SECONDS = 2.0  # for a member whose lease has run out: perhaps the store was away

LATE_SECONDS = 0.5  # by which a time limit may be late while this process has its turns

OnGone = Callable[[Member], Awaitable[None]]


def watched_by(node: NodeId, members: Sequence[Member]) -> list[Member]:
    """The members that this one keeps a connection to: the next ones, by name, in a ring."""
    others = sorted((m for m in members if m.node != node), key=lambda m: m.node)
    return sorted(others, key=lambda m: m.node < node)[:WATCHED]


class HostWatch:
    """``follow`` the members whenever they change. ``on_gone`` is awaited once for each end."""

    def __init__(
        self,
        node: NodeId,
        credentials: Credentials | None,
        on_gone: OnGone,
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._node = node
        self._credentials = credentials
        self._on_gone = on_gone
        self._answer_seconds = answer_seconds
        self._clock = clock
        self._watches: dict[Member, asyncio.Task[None]] = {}
        self._questions: dict[Member, asyncio.Task[None]] = {}  # to members that are none any more
        self._session: aiohttp.ClientSession | None = None

    def follow(self, members: Sequence[Member]) -> None:
        wanted = watched_by(self._node, members)
        present = {member.node for member in members}
        for member, question in list(self._questions.items()):
            if member.node in present or question.done():
                question.cancel()  # it is back, so nobody waits for its answer
                del self._questions[member]
        for member in [member for member in self._watches if member not in wanted]:
            self._watches.pop(member).cancel()
            if member.node not in present:
                question = asyncio.create_task(self._ask(member), name=f"ask {member.node}")
                self._questions[member] = question
        for member in wanted:
            if member not in self._watches:
                watch = asyncio.create_task(self._watch(member), name=f"watch {member.node}")
                self._watches[member] = watch

    def is_watching(self, member: Member) -> bool:
        return member in self._watches and not self._watches[member].done()

    @property
    def is_asking(self) -> bool:
        """Whether a member whose lease ran out may still answer."""
        return any(not question.done() for question in self._questions.values())

    async def close(self) -> None:
        tasks, self._watches = [*self._watches.values(), *self._questions.values()], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def answers(self, member: Member) -> bool:
        """Whether a host listens where this member is said to be, and says that it is that node."""
        try:
            async with asyncio.timeout(self._answer_seconds), self._connected(member) as response:
                return response.headers.get(NODE_HEADER) == member.node
        except (aiohttp.ClientError, OSError):  # TimeoutError is one
            return False

    async def _watch(self, member: Member) -> None:
        reset_seconds = RESET_SECONDS
        while True:
            try:
                await self._stay_connected(member)
            except aiohttp.ClientConnectorError as error:
                if isinstance(error.os_error, ConnectionRefusedError):
                    await self._on_gone(member)
                    return
                if isinstance(error.os_error, ConnectionResetError):
                    # A process that was just killed: until the system has closed its door as well,
                    # connections are accepted, and reset when nobody shakes hands.
                    await asyncio.sleep(reset_seconds)
                    reset_seconds = min(2 * reset_seconds, RETRY_SECONDS)
                else:
                    await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientResponseError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientError, OSError):
                continue  # it broke off: whether the process has ended, the next try will tell

    async def _ask(self, member: Member) -> None:
        """Whether a member has gone whose lease has run out: it has if it does not answer.

        If this process itself was stopped meanwhile, it asks again: the member may have come back.
        """
        while True:
            began = self._clock()
            try:
                async with asyncio.timeout(self._answer_seconds), self._connected(member):
                    return
            except (aiohttp.ClientError, OSError):  # TimeoutError is one
                if self._clock() - began <= self._answer_seconds + LATE_SECONDS:
                    await self._on_gone(member)
                    return

    async def _stay_connected(self, member: Member) -> None:
        """Return, or raise, when the connection ends."""
        async with self._connected(member) as response:
            await response.content.read()

    @asynccontextmanager
    async def _connected(self, member: Member) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            context = self._credentials.client_context() if self._credentials else True
            connector = aiohttp.TCPConnector(ssl=context, limit=0, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector)
        name = Role.NODE.value if self._credentials else None
        scheme = "https" if self._credentials else "http"
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
        url = f"{scheme}://{member.address}{ALIVE_PATH}"
        async with self._session.get(
            url, timeout=timeout, server_hostname=name, raise_for_status=True
        ) as response:
            yield response
