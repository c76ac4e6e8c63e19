"""Large files of other hosts: each comes over a blocking socket in a thread.

Another thread hashes and writes one piece while the next one comes. Measured over loopback, this
takes half the CPU that aiohttp's streams take without TLS (0.7 s and 1.3 s for a GB), and about as
much with it; but the event loop is free for messages while a file comes.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from time import monotonic

from dataward.live.arriving import Arriving
from dataward.live.served_files import CHUNK_BYTES, FILES_PATH
from dataward.live.tls_stream import TlsStream
from dataward.world import TransferFailed

IDLE_SECONDS = 30.0  # for which a connection is kept for the next file; a server waits longer


class Downloads:
    """Keeps threads and idle connections for a host. ``close`` it inside the loop."""

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext] | None,
        server_name: str | None,
        *,
        at_once_max: int,
        connect_seconds: float,
        silent_seconds: float,
    ) -> None:
        self._context = context() if context else None
        self._server_name = server_name
        self._connect_seconds = connect_seconds
        self._silent_seconds = silent_seconds
        self._threads = ThreadPoolExecutor(at_once_max, "download")
        self._writers = ThreadPoolExecutor(at_once_max, "write")
        self._idle: dict[str, list[_Connection]] = {}  # by address

    def close(self) -> None:
        for address in list(self._idle):
            self._forget(address)
        self._threads.shutdown(wait=False)
        self._writers.shutdown(wait=False)

    async def bring(self, address: str, arriving: Arriving) -> None:
        """What is missing of a file.

        Raises TransferFailed if the host says no, and OSError or HTTPException if it breaks off:
        then what has come until then need not come again.
        """
        connection = self._idle_at(address) or await self._connected(address)
        loop = asyncio.get_running_loop()
        over = loop.run_in_executor(self._threads, connection.receive, arriving, self._writers)
        try:
            await asyncio.shield(over)
        except asyncio.CancelledError:
            connection.break_off()
            over.cancel()  # if no thread has begun with it
            await asyncio.wait([over])  # nobody closes the file while a thread writes to it
            if not over.cancelled():
                over.exception()
            connection.close()
            raise
        except BaseException:
            connection.close()
            self._forget(address)  # the host may have restarted: then all of them are dead
            raise
        self._idle.setdefault(address, []).append(connection)

    def _idle_at(self, address: str) -> "_Connection | None":
        while idle := self._idle.get(address):
            connection = idle.pop()
            if connection.is_good():
                return connection
            connection.close()
        return None

    def _forget(self, address: str) -> None:
        for connection in self._idle.pop(address, ()):
            connection.close()

    async def _connected(self, address: str) -> "_Connection":
        """A new connection: here and not in its thread, where nobody could break it off."""
        loop = asyncio.get_running_loop()
        host, _, port = address.rpartition(":")
        found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        plain = socket.socket(family, kind, protocol)
        try:
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            async with asyncio.timeout(self._connect_seconds):
                await loop.sock_connect(plain, where)
            plain.settimeout(self._silent_seconds)
        except BaseException:
            plain.close()
            raise
        return _Connection(plain, address, self._context, self._server_name)


class _Connection(HTTPConnection):
    """A connection to a host, for one file after another; a thread uses it at a time."""

    def __init__(
        self, plain: socket.socket, address: str, context: ssl.SSLContext | None, name: str | None
    ) -> None:
        super().__init__(address)
        self.sock: socket.socket | TlsStream | None = plain
        self._plain = plain
        self.auto_open = 0
        self._is_broken_off = False
        self._to_wrap = context
        self._server_name = name
        self._used_at = monotonic()

    def is_good(self) -> bool:
        return self.sock is not None and monotonic() - self._used_at < IDLE_SECONDS

    def break_off(self) -> None:
        """Have the thread that uses it end at once, with an error."""
        self._is_broken_off = True
        with suppress(OSError):
            self._plain.shutdown(socket.SHUT_RDWR)

    def receive(self, arriving: Arriving, writers: ThreadPoolExecutor) -> None:
        if self._to_wrap is not None:
            context, self._to_wrap = self._to_wrap, None
            stream = self.sock = TlsStream(self._plain, context, self._server_name)
            stream.shake_hands()
        came_bytes = arriving.came_bytes
        headers = {"Range": f"bytes={came_bytes}-"} if came_bytes else {}
        self.request("GET", f"{FILES_PATH}/{arriving.digest}", headers=headers)
        response = self.getresponse()
        if response.status not in (200, 206):
            response.read()
            raise TransferFailed(f"the source does not give it ({response.status})")
        if response.length is None:
            raise TransferFailed("the source does not say how large it is")
        start = came_bytes if response.status == 206 else 0
        arriving.goes_on(start + response.length, start)
        self._read_all(response, response.length, arriving, writers)
        self._used_at = monotonic()

    def _read_all(
        self,
        response: HTTPResponse,
        left_bytes: int,
        arriving: Arriving,
        writers: ThreadPoolExecutor,
    ) -> None:
        size = min(left_bytes, CHUNK_BYTES)
        buffer, other = memoryview(bytearray(size)), memoryview(bytearray(size))
        written: Future[None] = Future()
        written.set_result(None)
        try:
            while left_bytes:
                count = response.readinto(buffer[:left_bytes])
                if not count or self._is_broken_off:
                    raise ConnectionError("the source closed the connection")
                written.result()
                written = writers.submit(arriving.add, buffer[:count])
                buffer, other = other, buffer
                left_bytes -= count
        finally:
            wait_for([written])  # nobody closes the file while a thread writes to it
        written.result()
