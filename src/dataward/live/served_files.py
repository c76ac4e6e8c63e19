"""The files that a host gives and takes over HTTP: by digest, whatever run they are of.

A file is never looked up by a path. One that is put here is written beside the depot and hashed
while it comes; it counts only when it is whole and has the digest that it was announced with.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO

from aiohttp import web

from dataward.live.arriving import Arriving
from dataward.live.credentials import Role
from dataward.live.depot_disk import Place
from dataward.live.durability import sync_path
from dataward.live.file_frames import ABSENT, ALONE, decoded_digests, encoded_digests, frame_head
from dataward.live.routes import Route, go_ahead
from dataward.live.sandbox import is_program
from dataward.world import DiskFull, TransferFailed

FILES_PATH = "/files"
CHUNK_BYTES = 1 << 20
SMALL_BYTES = 256 << 10  # of a file that may travel in a batch
BATCH_MAX = 1000  # files in a batch
FILE_HEADERS = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}

PROGRAM_HEADER = "X-Program"
PROGRAMS = {"yes": True, "no": False}

Find = Callable[[str], Place | None]
"""The file with this digest, of any run; None if it is not here"""

Taken = Callable[[str, int, str], None]
"""Told of a file that has come whole: its path, size and digest. Moves it away from its path."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    put_bytes_max: int = 1 << 40  # of one file
    chunk_seconds: float = 60.0  # for each MiB: whoever takes longer is cut off
    uploads_max: int = 16  # files and batches that are given at a time, to all hosts together
    puts_max: int = 32  # files that are taken at a time
    turn_seconds: float = 5.0  # for which others wait for their turn; then they hear of 503


class ServedFiles:
    """Serves what ``find`` finds; ``incoming`` gives a new path for a file that comes."""

    def __init__(
        self, find: Find, incoming: Callable[[], str], taken: Taken, settings: FileSettings
    ) -> None:
        self._find = find
        self._incoming = incoming
        self._taken = taken
        self._settings = settings
        self._uploads = asyncio.Semaphore(settings.uploads_max)
        self._puts = asyncio.Semaphore(settings.puts_max)

    def routes(self) -> list[Route]:
        everybody = frozenset(Role)
        writers = frozenset({Role.NODE, Role.SUBMIT})
        by_digest = f"{FILES_PATH}/{{digest:[0-9a-f]{{64}}}}"
        return [
            Route("GET", by_digest, self._give, everybody),
            Route("HEAD", by_digest, self._tell_size, everybody),
            Route("PUT", by_digest, self._take, writers, streams=True),
            Route("POST", f"{FILES_PATH}/have", self._tell_which, writers),
            Route("POST", f"{FILES_PATH}/batch", self._give_batch, everybody),
        ]

    # --- giving ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _turn(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        """Wait until one more file or batch may be given or taken, but not for long."""
        try:
            async with asyncio.timeout(self._settings.turn_seconds):
                await places.acquire()
        except TimeoutError as error:
            headers = {"Retry-After": f"{self._settings.turn_seconds:.0f}"}
            raise web.HTTPServiceUnavailable(text="too many ask", headers=headers) from error
        try:
            yield
        finally:
            places.release()

    async def _tell_size(self, request: web.Request) -> web.Response:
        with self._opened(request) as file:
            status = os.fstat(file.fileno())
        length = {"Content-Length": str(status.st_size)}
        return web.Response(headers={**length, **FILE_HEADERS, **_program_header(status)})

    async def _give(self, request: web.Request) -> web.StreamResponse:
        """The file with this digest, or the part of it that is asked for."""
        with self._opened(request) as file:
            status = os.fstat(file.fileno())
            part = _part_asked_for(request, status.st_size)
            headers = {**part.headers(), **_program_header(status)}
            async with self._turn(self._uploads):
                response = web.StreamResponse(status=part.status, headers=headers)
                await response.prepare(request)
                async with _cut_off_at_last(request):
                    await self._send(response, file, part)
        return response

    def _opened(self, request: web.Request) -> FileIO:
        place = self._find(request.match_info["digest"])
        if place is not None:
            with suppress(OSError):  # it has gone from the disk with nobody told
                return open(place.path, "rb", buffering=0)
        raise web.HTTPNotFound(text="no such file here")

    async def _send(self, response: web.StreamResponse, file: FileIO, part: "_Part") -> None:
        # Not by sendfile: uvloop has none, and through TLS there is none. A chunk is read while the
        # one before it goes out.
        file.seek(part.start)
        left_bytes = part.stop - part.start
        reading = _read_ahead(file, left_bytes)
        try:
            while left_bytes:
                chunk = await reading
                if len(chunk) != min(left_bytes, CHUNK_BYTES):
                    raise ConnectionError("the file has become shorter")
                left_bytes -= len(chunk)
                reading = _read_ahead(file, left_bytes)
                async with asyncio.timeout(self._settings.chunk_seconds):
                    await response.write(chunk)
        finally:
            await asyncio.wait([reading])  # nobody closes the file while a thread reads it

    async def _tell_which(self, request: web.Request) -> web.Response:
        """Those of a list of digests whose files are here."""
        known = [(digest, self._find(digest)) for digest in await self._asked_for(request)]
        loop = asyncio.get_running_loop()
        here = await loop.run_in_executor(None, _still_there, known)
        return web.Response(body=encoded_digests(here))

    async def _give_batch(self, request: web.Request) -> web.StreamResponse:
        """All files of a list of digests in one stream, in the order of the list."""
        digests = await self._asked_for(request)
        if len(digests) > BATCH_MAX:
            raise web.HTTPRequestEntityTooLarge(BATCH_MAX, len(digests))
        loop = asyncio.get_running_loop()
        async with self._turn(self._uploads):
            response = web.StreamResponse()
            await response.prepare(request)
            left = iter([(digest, self._find(digest)) for digest in digests])
            async with _cut_off_at_last(request):
                while frames := await loop.run_in_executor(None, _frames_of, left):
                    async with asyncio.timeout(self._settings.chunk_seconds):
                        await response.write(frames)
        return response

    async def _asked_for(self, request: web.Request) -> list[str]:
        try:
            return decoded_digests(await request.read())
        except ValueError as error:
            raise web.HTTPBadRequest(text="this is no list of digests") from error

    # --- taking ----------------------------------------------------------------------------------

    async def _take(self, request: web.Request) -> web.Response:
        """Take a file in; one that is here already need not be sent."""
        digest, size_bytes = request.match_info["digest"], request.content_length
        if _still_there([(digest, self._find(digest))]):
            return web.Response(text="it is here")
        if size_bytes is None:
            raise web.HTTPLengthRequired(text="say how large the file is")
        if size_bytes > self._settings.put_bytes_max:
            raise web.HTTPRequestEntityTooLarge(self._settings.put_bytes_max, size_bytes)
        async with self._turn(self._puts):
            await go_ahead(request)
            try:
                await self._take_in(request, digest, size_bytes)
            except TransferFailed as error:
                raise web.HTTPUnprocessableEntity(text=str(error)) from error
            except (DiskFull, OSError) as error:
                raise web.HTTPInsufficientStorage(text=str(error)) from error
        return web.Response(status=201)

    async def _take_in(self, request: web.Request, digest: str, size_bytes: int) -> None:
        path = self._incoming()
        try:
            with open(path, "xb", buffering=0) as beside:
                arriving = Arriving(digest, beside)
                arriving.goes_on(size_bytes, 0)
                await self._receive(arriving, request)
            await asyncio.get_running_loop().run_in_executor(None, sync_path, path)
            self._taken(path, arriving.place(path).size_bytes, digest)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)  # unless it was taken

    async def _receive(self, arriving: Arriving, request: web.Request) -> None:
        """All bytes of a body: one chunk is hashed and written while the next one comes."""
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        written.set_result(None)
        left_bytes = arriving.size_bytes
        try:
            while left_bytes:
                count = min(left_bytes, CHUNK_BYTES)
                async with asyncio.timeout(self._settings.chunk_seconds):
                    chunk = await request.content.readexactly(count)
                await written
                written = loop.run_in_executor(None, partial(arriving.add, chunk))
                left_bytes -= count
        except asyncio.IncompleteReadError as error:
            raise TransferFailed("it ended too soon") from error
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="it came too slowly") from error
        finally:
            await asyncio.wait([written])  # nobody closes the file while a thread writes to it
        written.result()


def _read_ahead(file: FileIO, left_bytes: int) -> asyncio.Future[bytes]:
    count = min(left_bytes, CHUNK_BYTES)
    return asyncio.get_running_loop().run_in_executor(None, file.read, count)


@asynccontextmanager
async def _cut_off_at_last(request: web.Request) -> AsyncIterator[None]:
    """End the connection of a peer that takes too long, or whose answer cannot be completed."""
    try:
        yield
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()


@dataclass(frozen=True, slots=True)
class _Part:
    """From ``start`` up to ``stop`` of a file."""

    start: int
    stop: int
    size_bytes: int
    is_asked_for: bool  # else the whole file is

    @property
    def status(self) -> int:
        return 206 if self.is_asked_for else 200

    def headers(self) -> dict[str, str]:
        told = {"Content-Length": str(self.stop - self.start), **FILE_HEADERS}
        if self.is_asked_for:
            told["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{self.size_bytes}"
        return told


def _program_header(status: os.stat_result) -> dict[str, str]:
    told = is_program(status.st_mode)
    return {
        PROGRAM_HEADER: next((word for word, yes in PROGRAMS.items() if yes is told), "unknown")
    }


def _still_there(known: Iterable[tuple[str, Place | None]]) -> list[str]:
    """Those whose files have not gone from the disk with nobody told."""
    return [digest for digest, place in known if place and os.path.isfile(place.path)]


def _part_asked_for(request: web.Request, size_bytes: int) -> _Part:
    is_asked_for = "Range" in request.headers
    try:
        start, stop, _ = request.http_range.indices(size_bytes)
    except ValueError:  # it cannot be read
        start = stop = 0
    if is_asked_for and start >= stop:
        headers = {"Content-Range": f"bytes */{size_bytes}"}
        raise web.HTTPRequestRangeNotSatisfiable(headers=headers)
    return _Part(start, stop, size_bytes, is_asked_for)


def _frames_of(files: Iterable[tuple[str, Place | None]]) -> bytes:
    """The next frames of a batch, of about `CHUNK_BYTES` in all; none at its end."""
    frames = bytearray()
    for digest, place in files:
        frames += _frame_of(digest, place)
        if len(frames) >= CHUNK_BYTES:
            break
    return bytes(frames)


def _frame_of(digest: str, place: Place | None) -> bytes:
    if place is None:
        return frame_head(digest, ABSENT)
    if place.size_bytes > SMALL_BYTES:
        return frame_head(digest, ALONE)
    try:
        with open(place.path, "rb", buffering=0) as file:
            content = file.read(SMALL_BYTES + 1)
    except OSError:
        return frame_head(digest, ABSENT)
    if len(content) > SMALL_BYTES:  # somebody has written to it
        return frame_head(digest, ABSENT)
    return frame_head(digest, len(content)) + content
