"""A path that a host serves, and who may ask for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from dataward.live.credentials import Role

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """``handler`` is called only for a peer whose certificate has one of the ``roles``.

    The body has been read by then, so that ``await request.read()`` does not wait, unless the
    handler ``streams``: then it must bound by itself how long a body takes and how large it gets,
    and call `go_ahead` before it reads.
    """

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role]
    streams: bool = False


async def go_ahead(request: web.Request) -> None:
    """Have a peer send its body, if it waits to be told so."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def no_answer_yet(request: web.Request) -> None:
    """What is done about ``Expect`` before the peer's role is known: nothing."""
