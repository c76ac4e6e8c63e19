"""Accepts connections of a host: how many there may be, and how long a handshake may take.

Beyond its caps it closes the newest connection at once. So whoever opens thousands keeps out
neither peers whose connections stand, nor, without a certificate, peers of other addresses.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from dataward.live.refusals import Refusals

PAUSE_SECONDS = 0.1  # after the system had no room for one more connection


@dataclass(frozen=True, slots=True)
class DoorSettings:
    handshake_seconds: float = 5.0  # whoever takes longer is cut off
    handshakes_max: int = 1024  # at once; each takes some 50 kB
    handshakes_of_one_max: int = 256  # of these, of one address
    connections_max: int = 4096  # whose handshake is over
    waiting_max: int = 1024  # which the system holds until they are accepted


class Door:
    """Each connection gets a protocol of ``factory``; ``count`` says how many are open."""

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        context: ssl.SSLContext | None,
        refusals: Refusals,
        settings: DoorSettings,
    ) -> None:
        self._factory = factory
        self._count = count
        self._context = context
        self._refusals = refusals
        self._settings = settings
        self._handshakes: Counter[str] = Counter()  # under way, by address
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """The port that it listens at. Raises OSError."""
        loop = asyncio.get_running_loop()
        (family, *_, where), *_ = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._socket = socket.create_server(
            where[:2], family=family, backlog=self._settings.waiting_max
        )
        self._socket.setblocking(False)
        self._start_task(self._accept_all(self._socket))
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (address, *_) = await loop.sock_accept(listening)
            except OSError as error:  # too many files are open, or the peer has gone
                self._refusals.note("a peer", "it cannot be accepted", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            why = self._why_not(address)
            if why:
                self._refusals.note(address, why)
                connection.close()
            else:
                self._handshakes[address] += 1
                self._start_task(self._let_in(connection, address))

    def _why_not(self, address: str) -> str:
        settings, handshakes = self._settings, self._handshakes
        if self._count() >= settings.connections_max:
            return "too many connections are open"
        if self._context is None:
            return ""
        if handshakes.total() >= settings.handshakes_max:
            return "too many connections are being opened"
        if handshakes[address] >= settings.handshakes_of_one_max:
            return "too many of its connections are being opened"
        return ""

    async def _let_in(self, connection: socket.socket, address: str) -> None:
        seconds = self._settings.handshake_seconds if self._context else None
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory, connection, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except (OSError, EOFError) as error:  # no certificate of the cluster, or too slow
            reason = error.reason if isinstance(error, ssl.SSLError) else type(error).__name__
            self._refusals.note(address, "the handshake failed", reason)
            with suppress(OSError):
                connection.close()
        finally:
            self._handshakes[address] -= 1
            if not self._handshakes[address]:
                del self._handshakes[address]

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
