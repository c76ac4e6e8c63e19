"""Notices at once when the process of another host has ended, by its closed connections.

Each host keeps one silent connection open to each of the two members that come after it by name.
The system closes a connection when the process at its other end is gone. If a new one is refused,
nobody listens there any more: that member is gone. A whole machine that goes silent closes nothing:
then its leases tell.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import aiohttp

from dataward.live.credentials import Credentials, Role
from dataward.model.ids import NodeId
from dataward.model.members import Member

log = logging.getLogger(__name__)

ALIVE_PATH = "/alive"
WATCHED = 2  # so that one that is gone with its watcher is noticed too
CONNECT_SECONDS = 5.0
RETRY_SECONDS = 5.0  # after a connection that could not be made, but was not refused

OnGone = Callable[[Member], Awaitable[None]]


def watched_by(node: NodeId, members: Sequence[Member]) -> list[Member]:
    """The members that this one keeps a connection to: the next ones, by name, in a ring."""
    others = sorted((m for m in members if m.node != node), key=lambda m: m.node)
    return sorted(others, key=lambda m: m.node < node)[:WATCHED]


class HostWatch:
    """``follow`` the members whenever they change. ``on_gone`` is awaited once for each end."""

    def __init__(self, node: NodeId, credentials: Credentials | None, on_gone: OnGone) -> None:
        self._node = node
        self._credentials = credentials
        self._on_gone = on_gone
        self._watches: dict[tuple[NodeId, str, int], asyncio.Task[None]] = {}
        self._session: aiohttp.ClientSession | None = None

    def follow(self, members: Sequence[Member]) -> None:
        wanted = {(m.node, m.address, m.incarnation): m for m in watched_by(self._node, members)}
        for key in self._watches.keys() - wanted.keys():
            self._watches.pop(key).cancel()
        for key, member in wanted.items():
            if key not in self._watches:
                watch = self._watch(member)
                self._watches[key] = asyncio.create_task(watch, name=f"watch {member.node}")

    async def close(self) -> None:
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _watch(self, member: Member) -> None:
        while True:
            try:
                await self._stay_connected(member)
            except aiohttp.ClientConnectorError as error:
                if isinstance(error.os_error, ConnectionRefusedError):
                    await self._on_gone(member)
                    return
                await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientResponseError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientError, OSError):
                continue  # it broke off: whether the process has ended, the next try will tell

    async def _stay_connected(self, member: Member) -> None:
        """Return, or raise, when the connection ends."""
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
            await response.content.read()
