"""Asks other hosts over HTTP: leaves mail with them, opens their files, and puts files there."""

import os
from asyncio import IncompleteReadError
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from time import monotonic

import aiohttp

from dataward.live.arriving import Arriving
from dataward.live.credentials import Credentials, Role
from dataward.live.downloads import Downloads
from dataward.live.file_frames import FileFrame, decoded_digests, encoded_digests, next_frame
from dataward.live.node_server import mail_path
from dataward.live.served_files import (
    CHUNK_BYTES,
    FILES_PATH,
    PROGRAM_HEADER,
    PROGRAMS,
    SMALL_BYTES,
)
from dataward.model.ids import NodeId
from dataward.world import TransferFailed

AddressOf = Callable[[NodeId], str | None]
"""The host and port of a node, as ``10.0.0.5:7001``; None if the node is not known now."""

BROKEN = (aiohttp.ClientError, HTTPException, OSError, IncompleteReadError)
"""What a connection may end with that breaks off."""

ASKED_MAX = 10_000  # digests in one question
MAIL_CONNECTIONS_MAX = 8  # to one host, for the mail of all runs


@dataclass(frozen=True, slots=True)
class ClientSettings:
    connect_seconds: float = 5.0
    silent_seconds: float = 30.0  # a transfer that brings nothing for so long has broken off
    mail_seconds: float = 10.0  # for one batch of messages
    connections_max: int = 64  # for files, to all nodes together
    downloads_max: int = 32  # of these, large files
    doubt_seconds: float = 30.0  # for which others are asked first, if a node was not reached


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file of another node, from an offset on."""

    size_bytes: int
    offset: int
    content: aiohttp.StreamReader
    is_program: bool | None = None  # whether it is executable, as its task left it


class PeerClient:
    """One for all runs of a host. ``open`` it inside the loop first, and ``close`` it there."""

    def __init__(
        self,
        address_of: AddressOf,
        credentials: Credentials | None,
        settings: ClientSettings | None = None,
    ) -> None:
        self._address_of = address_of
        self._credentials = credentials
        self._settings = settings or ClientSettings()
        self._for_mail: aiohttp.ClientSession | None = None
        self._for_files: aiohttp.ClientSession | None = None
        self._downloads: Downloads | None = None
        self._doubted_until: dict[NodeId, float] = {}
        self.messages_sent = 0
        self.letters_sent = 0  # requests that had messages in them

    async def open(self) -> None:
        # Mail has connections of its own: it must not wait for large files.
        self._for_mail = self._session(0, of_one=MAIL_CONNECTIONS_MAX)
        self._for_files = self._session(self._settings.connections_max)
        self._downloads = Downloads(
            self._credentials.client_context if self._credentials else None,
            self._name,
            at_once_max=self._settings.downloads_max,
            connect_seconds=self._settings.connect_seconds,
            silent_seconds=self._settings.silent_seconds,
        )

    def _session(self, connections_max: int, of_one: int = 0) -> aiohttp.ClientSession:
        context = self._credentials.client_context() if self._credentials else None
        connector = aiohttp.TCPConnector(
            ssl=context if context is not None else True,
            limit=connections_max,
            limit_per_host=of_one,
        )
        return aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def close(self) -> None:
        for session in (self._for_mail, self._for_files):
            if session is not None:
                await session.close()
        if self._downloads is not None:
            self._downloads.close()

    def doubts(self, node: NodeId) -> bool:
        """Whether the node could not be reached a moment ago, and not since."""
        return monotonic() < self._doubted_until.get(node, 0.0)

    @contextmanager
    def _noting(self, node: NodeId) -> Iterator[None]:
        """Doubt the node if a connection to it breaks off, and no longer if one does not."""
        try:
            yield
        except BROKEN:
            self._doubted_until[node] = monotonic() + self._settings.doubt_seconds
            raise
        self._doubted_until.pop(node, None)

    # --- messages --------------------------------------------------------------------------------

    async def leave_mail(self, to: NodeId, run: str, mail: bytes, messages: int = 1) -> bool:
        """Whether the node has taken the mail, which has so many messages."""
        return await self.leave(to, mail_path(run), mail, messages)

    async def leave(self, to: NodeId, path: str, content: bytes, messages: int = 1) -> bool:
        """Whether the node has taken what is left with it at this path."""
        assert self._for_mail is not None, "it is not open"
        self.messages_sent += messages
        self.letters_sent += 1
        settings = self._settings
        total = aiohttp.ClientTimeout(total=settings.mail_seconds, connect=settings.connect_seconds)
        try:
            with self._noting(to):
                async with self._for_mail.post(
                    self._url(to, path),
                    data=BytesIO(content),
                    timeout=total,
                    server_hostname=self._name,
                ) as response:
                    return response.status == 204
        except (*BROKEN, TransferFailed):
            return False

    # --- files -----------------------------------------------------------------------------------

    async def fetch_file(self, source: NodeId, arriving: Arriving) -> None:
        """What is missing of a file; a thread hashes and writes it.

        Raises TransferFailed if the node says no, and one of `BROKEN` if it says nothing more.
        """
        assert self._downloads is not None, "it is not open"
        with self._noting(source):
            await self._downloads.bring(self._address(source), arriving)

    @asynccontextmanager
    async def open_file(
        self, source: NodeId, digest: str, offset: int = 0
    ) -> AsyncIterator[OpenedFile]:
        """The file with this digest, to be read piece by piece.

        Raises TransferFailed if the node says no, and one of `BROKEN` if it says nothing.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        async with self._asked("GET", source, f"/{digest}", headers=headers) as response:
            if response.status not in (200, 206):
                raise TransferFailed(f"{source} does not give {digest} ({response.status})")
            start = offset if response.status == 206 else 0
            length = response.content_length
            if length is None:
                raise TransferFailed(f"{source} does not say how large {digest} is")
            is_program = PROGRAMS.get(response.headers.get(PROGRAM_HEADER, ""))
            yield OpenedFile(start + length, start, response.content, is_program)

    async def is_program(self, source: NodeId, digest: str) -> bool | None:
        """Whether the file was executable where it was made; None if the node does not know."""
        try:
            async with self._asked("HEAD", source, f"/{digest}") as response:
                return PROGRAMS.get(response.headers.get(PROGRAM_HEADER, ""))
        except (*BROKEN, TransferFailed):
            return None

    async def fetch_batch(
        self, source: NodeId, digests: Sequence[str]
    ) -> AsyncGenerator[FileFrame, None]:
        """Small files, in the order of their digests; their contents are still to be checked.

        Raises, also midway, TransferFailed if the node says no, and one of `BROKEN` if it says
        nothing more.
        """
        body = BytesIO(encoded_digests(digests))
        async with self._asked("POST", source, "/batch", data=body) as response:
            if response.status != 200:
                raise TransferFailed(f"{source} gives no batch ({response.status})")
            for digest in digests:
                yield await next_frame(response.content, digest, SMALL_BYTES)

    async def have(self, to: NodeId, digests: Sequence[str]) -> set[str]:
        """Those of the digests whose files the node has. Raises TransferFailed."""
        found: set[str] = set()
        with _broken_is_failed(to):
            for first in range(0, len(digests), ASKED_MAX):
                asked = encoded_digests(digests[first : first + ASKED_MAX])
                async with self._asked("POST", to, "/have", data=BytesIO(asked)) as response:
                    if response.status != 200:
                        raise TransferFailed(f"{to} does not say what it has ({response.status})")
                    found.update(decoded_digests(await response.read()))
        return found

    async def put_file(self, to: NodeId, path: str, digest: str) -> None:
        """Have the node hold this file; it is not sent if it is there. Raises TransferFailed."""
        try:
            size_bytes = os.stat(path).st_size
        except OSError as error:
            raise TransferFailed(f"{path!r} cannot be read: {error.strerror}") from error
        headers = {"Content-Length": str(size_bytes), "Expect": "100-continue"}
        with _broken_is_failed(to):
            async with self._asked(
                "PUT", to, f"/{digest}", headers=headers, data=_chunks_of(path)
            ) as response:
                if response.status not in (200, 201):
                    why = (await response.text())[:200]
                    raise TransferFailed(f"{to} does not take {digest}: {why}")

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        node: NodeId,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        data: BytesIO | AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._for_files is not None, "it is not open"
        settings = self._settings
        silence = aiohttp.ClientTimeout(
            total=None, connect=settings.connect_seconds, sock_read=settings.silent_seconds
        )
        with self._noting(node):
            async with self._for_files.request(
                method,
                self._url(node, f"{FILES_PATH}{path}"),
                headers=headers,
                data=data,
                timeout=silence,
                server_hostname=self._name,
            ) as response:
                yield response

    @property
    def _name(self) -> str | None:
        """The name in the certificate of whoever answers: a node's, whatever its address is."""
        return Role.NODE.value if self._credentials else None

    def _url(self, node: NodeId, path: str) -> str:
        return f"{'https' if self._credentials else 'http'}://{self._address(node)}{path}"

    def _address(self, node: NodeId) -> str:
        address = self._address_of(node)
        if address is None:
            raise TransferFailed(f"{node} is not known")
        return address


async def _chunks_of(path: str) -> AsyncIterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


@contextmanager
def _broken_is_failed(node: NodeId) -> Iterator[None]:
    try:
        yield
    except (*BROKEN, ValueError) as error:
        raise TransferFailed(f"{node} broke off: {error}") from error
