"""What a host lets others ask of it over HTTP: to take messages, and to give and take files.

Each path names the roles that may ask for it, and the peer's certificate is looked at before the
body is read. A message is checked against its type before anybody sees it; a file is looked up by
its digest, and never by a path. The ``cluster`` room adds paths of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from dataward.live.credentials import Credentials, Role, check_listening, roles_in
from dataward.live.door import Door, DoorSettings
from dataward.live.refusals import Refusals
from dataward.live.routes import Handler, Route, go_ahead, no_answer_yet
from dataward.live.served_files import FileSettings, Find, ServedFiles, Taken
from dataward.model.ids import NodeId
from dataward.model.members import RUN_NAME as RUN_NAME
from dataward.model.messages import Message
from dataward.world import Queue

__all__ = ["Mail", "NodeServer", "Route", "ServerSettings", "decoded_mail", "mail_path"]

NODES_ONLY = frozenset({Role.NODE})

Mailbox = Callable[[str], Queue[Message] | None]
"""The inbox of a run's node on this host; None if the run is not here"""


class Mail(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one node to another, in the order in which they were sent."""

    sender: NodeId
    messages: tuple[Message, ...]


_DECODER = msgspec.msgpack.Decoder(Mail)


def decoded_mail(body: bytes) -> Mail:
    """The mail that these bytes are. Raises ValueError if they are none."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:  # no ValueErrors; bad UTF-8 raises one
        raise ValueError(str(error)) from error


def mail_path(run: str) -> str:
    return f"/runs/{run}/messages"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    body_bytes_max: int = 8 << 20  # of one request, but for files that are put here
    body_seconds: float = 30.0  # whoever takes longer for such a body is cut off
    inbox_max: int = 100_000  # messages; more are refused, as if they were lost
    idle_seconds: float = 45.0  # without a whole request; clients close theirs sooner
    linger_seconds: float = 2.0  # in which a body that nobody reads may still come
    door: DoorSettings = field(default_factory=DoorSettings)
    files: FileSettings = field(default_factory=FileSettings)


class NodeServer:
    """Serves one host. ``start`` it inside the loop, and ``close`` it there."""

    def __init__(
        self,
        mailbox: Mailbox,
        find: Find,
        incoming: Callable[[], str],
        taken: Taken,
        credentials: Credentials | None,
        settings: ServerSettings | None = None,
        routes: Sequence[Route] = (),
    ) -> None:
        """``incoming`` gives a new path for a file that is put here; `ServedFiles` says more.

        Without credentials the server serves anybody, and only on this machine.
        """
        self._mailbox = mailbox
        self._credentials = credentials
        self._settings = settings or ServerSettings()
        app = web.Application(
            middlewares=[self._check], client_max_size=self._settings.body_bytes_max
        )
        mail = Route("POST", mail_path(f"{{run:{RUN_NAME}}}"), self._take_mail, NODES_ONLY)
        files = ServedFiles(find, incoming, taken, self._settings.files)
        self._routes: dict[web.AbstractRoute, Route] = {}
        for route in (mail, *files.routes(), *routes):
            added = app.router.add_route(
                route.method, route.path, route.handler, expect_handler=no_answer_yet
            )
            self._routes[added] = route
        self._refusals = Refusals()
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_ServerLog(self._refusals),
            handle_signals=False,
            shutdown_timeout=0.0,
            keepalive_timeout=self._settings.idle_seconds,
            lingering_time=self._settings.linger_seconds,
            auto_decompress=False,  # a small body would become a large one before it is measured
        )
        self._door: Door | None = None

    async def start(self, host: str, port: int = 0) -> int:
        """The port it listens at; 0 takes any that is free. Raises SettingError, OSError."""
        check_listening(host, self._credentials)
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        context = self._credentials.server_context() if self._credentials else None
        # Not by aiohttp's own `TCPSite`, which gives a silent client a minute for its handshake,
        # and has no cap.
        self._door = Door(
            server,
            lambda: len(server.connections),
            context,
            self._refusals,
            self._settings.door,
        )
        return await self._door.start(host, port)

    async def close(self) -> None:
        """Stop listening, and cut off whoever is still being served."""
        if self._door is not None:
            await self._door.close()
        await self._runner.cleanup()

    # --- requests --------------------------------------------------------------------------------

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a peer through that has a role for what it asks; then read its body."""
        route = self._routes.get(request.match_info.route)
        if route is None:
            return await handler(request)  # which says that there is no such path
        if self._credentials is not None:
            transport = request.transport
            shown = transport.get_extra_info("peercert") if transport else None
            if not roles_in(shown) & route.roles:
                self._refusals.note(request.remote, f"no role for {route.method} {route.path}")
                raise web.HTTPForbidden(text="no role of yours may ask this")
        if not route.streams:
            await self._read(request)
        return await handler(request)

    async def _read(self, request: web.Request) -> None:
        size_bytes, limit = request.content_length, self._settings.body_bytes_max
        if size_bytes is not None and size_bytes > limit:
            raise web.HTTPRequestEntityTooLarge(limit, size_bytes)
        await go_ahead(request)
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the body came too slowly") from error

    async def _take_mail(self, request: web.Request) -> web.Response:
        inbox = self._mailbox(request.match_info["run"])
        if inbox is None:
            raise web.HTTPNotFound(text="no such run here")
        try:
            mail = decoded_mail(await request.read())
        except ValueError as error:
            self._refusals.note(request.remote, "what it sent is no mail", error)
            raise web.HTTPBadRequest(text="this is no mail") from error
        if len(inbox) > self._settings.inbox_max:
            raise web.HTTPServiceUnavailable(text="too many messages wait here")
        for message in mail.messages:
            inbox.put(message)
        return web.Response(status=204)


class _ServerLog(logging.LoggerAdapter[logging.Logger]):
    """What the HTTP server logs: a line for what is no HTTP, a traceback for our own mistakes."""

    def __init__(self, refusals: Refusals) -> None:
        super().__init__(logging.getLogger(__name__))
        self._refusals = refusals

    def log(self, level: int, msg: object, *args: object, **given: Any) -> None:
        error = given.get("exc_info")
        if isinstance(error, ConnectionError):
            return  # the peer has gone: there is nobody to answer
        if isinstance(error, HttpProcessingError):
            # Not the error's own sentence, which quotes what was sent.
            address, kind = args[0] if args else "a peer", type(error).__name__
            self._refusals.note(address, "what it sent is no HTTP", kind)
        else:
            super().log(level, msg, *args, **given)
