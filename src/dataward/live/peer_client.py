"""Asks other nodes over HTTP: leaves mail with them, and opens their files."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO

import aiohttp

from dataward.live.credentials import Credentials, Role
from dataward.live.node_server import ANY_DIGEST, DIGEST_HEADER, FILES_PATH, MESSAGES_PATH
from dataward.model.ids import NodeId
from dataward.world import TransferFailed

AddressOf = Callable[[NodeId], str | None]
"""The host and port of a node, as ``10.0.0.5:7001``; None if the node is not known now."""

BROKEN = (aiohttp.ClientError, TimeoutError, ConnectionError)
"""What a connection may end with that breaks off."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    connect_seconds: float = 5.0
    silent_seconds: float = 30.0  # a transfer that brings nothing for so long has broken off
    mail_seconds: float = 10.0  # for one batch of messages
    connections_max: int = 64  # to all nodes together


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file of another node, from an offset on."""

    digest: str
    size_bytes: int
    offset: int
    content: aiohttp.StreamReader


class PeerClient:
    """``open`` it inside the loop before anything else, and ``close`` it there."""

    def __init__(
        self,
        address_of: AddressOf,
        credentials: Credentials | None,
        settings: ClientSettings | None = None,
    ) -> None:
        self._address_of = address_of
        self._credentials = credentials
        self._settings = settings or ClientSettings()
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        context = self._credentials.client_context() if self._credentials else None
        connector = aiohttp.TCPConnector(
            ssl=context if context is not None else True,
            limit=self._settings.connections_max,
        )
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def leave_mail(self, to: NodeId, mail: bytes) -> bool:
        """Whether the node has taken it."""
        session, settings = self._opened, self._settings
        total = aiohttp.ClientTimeout(total=settings.mail_seconds, connect=settings.connect_seconds)
        try:
            async with session.post(
                self._url(to, MESSAGES_PATH),
                data=BytesIO(mail),
                timeout=total,
                server_hostname=self._name,
            ) as response:
                return response.status == 204
        except (*BROKEN, TransferFailed):
            return False

    @asynccontextmanager
    async def open_file(
        self, source: NodeId, name: str, digest: str, offset: int
    ) -> AsyncIterator[OpenedFile]:
        """The file of this name, if it has this digest, or whatever it has if "" is asked for.

        Raises TransferFailed if the node says no, and one of `BROKEN` if it says nothing.
        """
        settings = self._settings
        silence = aiohttp.ClientTimeout(
            total=None, connect=settings.connect_seconds, sock_read=settings.silent_seconds
        )
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        async with self._opened.get(
            self._url(source, f"{FILES_PATH}/{digest or ANY_DIGEST}"),
            params={"name": name},
            headers=headers,
            timeout=silence,
            server_hostname=self._name,
        ) as response:
            if response.status not in (200, 206):
                raise TransferFailed(f"{source} has no such {name!r} ({response.status})")
            start = offset if response.status == 206 else 0
            length = response.content_length
            if length is None:
                raise TransferFailed(f"{source} does not say how large {name!r} is")
            found = response.headers.get(DIGEST_HEADER, "")
            yield OpenedFile(found, start + length, start, response.content)

    @property
    def _opened(self) -> aiohttp.ClientSession:
        assert self._session is not None, "it is not open"
        return self._session

    @property
    def _name(self) -> str | None:
        """The name in the certificate of whoever answers: a node's, whatever its address is."""
        return Role.NODE.value if self._credentials else None

    def _url(self, node: NodeId, path: str) -> str:
        address = self._address_of(node)
        if address is None:
            raise TransferFailed(f"{node} is not known")
        return f"{'https' if self._credentials else 'http'}://{address}{path}"
