"""The files that a host gives and takes over HTTP: by digest, whatever run they are of.

A file is never looked up by a path. One that is put here is written beside the depot and hashed
while it comes; it counts only when it is whole and has the digest that it was announced with.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from dataward.live.arriving import Arriving
from dataward.live.credentials import Role
from dataward.live.depot_disk import Place
from dataward.live.durability import sync_path
from dataward.live.file_frames import ABSENT, ALONE, decoded_digests, encoded_digests, frame_head
from dataward.live.routes import Route, go_ahead
from dataward.world import TransferFailed

FILES_PATH = "/files"
CHUNK_BYTES = 1 << 20
SMALL_BYTES = 256 << 10  # of a file that may travel in a batch

Find = Callable[[str], Place | None]
"""The file with this digest, of any run; None if it is not here"""

Taken = Callable[[str, int, str], None]
"""Told of a file that has come whole: its path, size and digest. Moves it away from its path."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    put_bytes_max: int = 1 << 40  # of one file
    batch_max: int = 1000  # files in one answer
    chunk_seconds: float = 60.0  # for each MiB: whoever takes longer is cut off


class ServedFiles:
    """Serves what ``find`` finds; ``incoming`` gives a new path for a file that comes."""

    def __init__(
        self, find: Find, incoming: Callable[[], str], taken: Taken, settings: FileSettings
    ) -> None:
        self._find = find
        self._incoming = incoming
        self._taken = taken
        self._settings = settings

    def routes(self) -> list[Route]:
        everybody = frozenset(Role)
        writers = frozenset({Role.NODE, Role.SUBMIT})
        by_digest = f"{FILES_PATH}/{{digest:[0-9a-f]{{64}}}}"
        return [
            Route("GET", by_digest, self._give, everybody),
            Route("HEAD", by_digest, self._give, everybody),
            Route("PUT", by_digest, self._take, writers, streams=True),
            Route("POST", f"{FILES_PATH}/have", self._tell_which, writers),
            Route("POST", f"{FILES_PATH}/batch", self._give_batch, everybody),
        ]

    def _found(self, digest: str) -> Place | None:
        place = self._find(digest)
        if place is None or not os.path.isfile(place.path):  # gone from the disk with nobody told
            return None
        return place

    # --- giving ----------------------------------------------------------------------------------

    async def _give(self, request: web.Request) -> web.StreamResponse:
        """The file with this digest; ranges are served as asked for."""
        place = self._found(request.match_info["digest"])
        if place is None:
            raise web.HTTPNotFound(text="no such file here")
        headers = {"Content-Type": "application/octet-stream"}
        return web.FileResponse(place.path, chunk_size=CHUNK_BYTES, headers=headers)

    async def _tell_which(self, request: web.Request) -> web.Response:
        """Those of a list of digests whose files are here."""
        digests = await self._asked_for(request)
        here = [digest for digest in digests if self._found(digest) is not None]
        return web.Response(body=encoded_digests(here))

    async def _give_batch(self, request: web.Request) -> web.StreamResponse:
        """All files of a list of digests in one stream, in the order of the list."""
        digests = await self._asked_for(request)
        if len(digests) > self._settings.batch_max:
            raise web.HTTPRequestEntityTooLarge(self._settings.batch_max, len(digests))
        response = web.StreamResponse()
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        left = iter([(digest, self._found(digest)) for digest in digests])
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
        if self._found(digest) is not None:
            return web.Response(text="it is here")
        if size_bytes is None:
            raise web.HTTPLengthRequired(text="say how large the file is")
        if size_bytes > self._settings.put_bytes_max:
            raise web.HTTPRequestEntityTooLarge(self._settings.put_bytes_max, size_bytes)
        await go_ahead(request)
        path = self._incoming()
        try:
            with open(path, "xb", buffering=0) as beside:
                arriving = Arriving(digest, beside)
                arriving.goes_on(size_bytes, 0)
                await self._receive(arriving, request)
            await asyncio.get_running_loop().run_in_executor(None, sync_path, path)
            self._taken(path, arriving.place(path).size_bytes, digest)
        except TransferFailed as error:
            raise web.HTTPUnprocessableEntity(text=str(error)) from error
        except OSError as error:
            raise web.HTTPInsufficientStorage(text=error.strerror or str(error)) from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)  # unless it was taken
        return web.Response(status=201)

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
