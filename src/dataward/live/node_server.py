"""What a node lets other nodes ask of it over HTTP: to take messages, and to give files.

Only nodes of the cluster get an answer. A message is checked against its type before anybody sees
it; a file is looked up by its name in the workflow and its digest, and never by a path.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from aiohttp import web

from dataward.live.credentials import Credentials, Role, check_listening, roles_in
from dataward.live.depot_disk import DepotDisk
from dataward.model.ids import NodeId
from dataward.model.messages import Message
from dataward.model.workflow import FileId
from dataward.world import Queue

log = logging.getLogger(__name__)

MESSAGES_PATH = "/messages"
FILES_PATH = "/files"
DIGEST_HEADER = "X-Dataward-Digest"
CHUNK_BYTES = 1 << 20
ANY_DIGEST = "any"  # asked for by who has not heard of a commit yet


class Mail(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one node to another, in the order in which they were sent."""

    sender: NodeId
    messages: tuple[Message, ...]


_DECODER = msgspec.msgpack.Decoder(Mail)


def decoded_mail(body: bytes) -> Mail:
    """The mail that these bytes are. Raises ValueError if they are none."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:  # which is no ValueError; bad UTF-8 raises one
        raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class ServerSettings:
    mail_bytes_max: int = 8 << 20  # of one request
    inbox_max: int = 100_000  # messages; more are refused, as if they were lost
    handshake_seconds: float = 5.0  # whoever takes longer is cut off


class NodeServer:
    """Serves one node. ``start`` it inside the loop, and ``close`` it there."""

    def __init__(
        self,
        inbox: Queue[Message],
        disk: DepotDisk,
        credentials: Credentials | None,
        settings: ServerSettings | None = None,
    ) -> None:
        """Without credentials it serves anybody, and only on this machine."""
        self._inbox = inbox
        self._disk = disk
        self._credentials = credentials
        self._settings = settings or ServerSettings()
        app = web.Application(
            middlewares=[self._for_nodes], client_max_size=self._settings.mail_bytes_max
        )
        app.router.add_post(MESSAGES_PATH, self._take_mail)
        app.router.add_get(f"{FILES_PATH}/{{digest:[0-9a-f]{{64}}|{ANY_DIGEST}}}", self._give_file)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=0.0
        )
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int = 0) -> int:
        """The port it listens at; 0 takes any that is free. Raises SettingError, OSError."""
        check_listening(host, self._credentials)
        await self._runner.setup()
        assert self._runner.server is not None
        # Not by aiohttp's own `TCPSite`, which gives a silent client a minute for its handshake.
        loop, context = asyncio.get_running_loop(), None
        if self._credentials is not None:
            context = self._credentials.server_context()
        self._listener = await loop.create_server(
            self._runner.server,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=self._settings.handshake_seconds if context else None,
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and cut off whoever is still being served."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    # --- requests --------------------------------------------------------------------------------

    @web.middleware
    async def _for_nodes(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._credentials is not None:
            transport = request.transport
            shown = transport.get_extra_info("peercert") if transport else None
            if Role.NODE not in roles_in(shown):
                log.warning("%s asked for %s, but is no node", request.remote, request.path)
                raise web.HTTPForbidden(text="only nodes may ask this")
        return await handler(request)

    async def _take_mail(self, request: web.Request) -> web.Response:
        try:
            mail = decoded_mail(await request.read())
        except ValueError as error:
            log.warning("%s sent what is no mail: %s", request.remote, error)
            raise web.HTTPBadRequest(text="this is no mail") from error
        if len(self._inbox) > self._settings.inbox_max:
            raise web.HTTPServiceUnavailable(text="too many messages wait here")
        for message in mail.messages:
            self._inbox.put(message)
        return web.Response(status=204)

    async def _give_file(self, request: web.Request) -> web.StreamResponse:
        """The file of this name, if it has this digest; ranges are served as asked for."""
        place = self._disk.where(FileId(request.query.get("name", "")))
        wanted = request.match_info["digest"]
        if place is None or (wanted != ANY_DIGEST and wanted != place.digest):
            raise web.HTTPNotFound(text="no such file here")
        if not Path(place.path).is_file():  # it has gone from the disk with nobody told
            raise web.HTTPNotFound(text="the file has gone")
        headers = {DIGEST_HEADER: place.digest, "Content-Type": "application/octet-stream"}
        return web.FileResponse(place.path, chunk_size=CHUNK_BYTES, headers=headers)
