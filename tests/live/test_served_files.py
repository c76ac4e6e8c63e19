"""Files that a host gives and takes by their digests."""

import asyncio
import os
from pathlib import Path

import aiohttp
import msgspec
import pytest
from blake3 import blake3

from conformance.both_worlds import a_world_of
from conformance.remote_world import HOST, RemoteWorld, authority, credentials_of
from dataward.live.credentials import Credentials, Role
from dataward.live.file_frames import ABSENT, ALONE, encoded_digests
from dataward.live.node_server import ServerSettings
from dataward.live.served_files import CHUNK_BYTES, SMALL_BYTES, FileSettings
from dataward.world import TransferFailed

LARGE = os.urandom(CHUNK_BYTES) * 3 + b"and a little"
HALF_A_FILE = (
    f"PUT /files/{blake3(b'xx').hexdigest()} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx"
).encode()


@pytest.fixture
def world(request) -> RemoteWorld:
    return a_world_of(RemoteWorld, request)


def digest_of(content: bytes) -> str:
    return blake3(content).hexdigest()


def store(world: RemoteWorld, **contents: bytes) -> list[str]:
    """The digests of these files, which n0 has now."""
    stored = world.run(world.disks["n0"].store_outputs(world.write("n0", "t", **contents)))
    return [file.digest for file in stored]


def local(world: RemoteWorld, content: bytes) -> tuple[str, str]:
    """The path and digest of a file that is in no depot."""
    path = world.directory / "local"
    path.write_bytes(content)
    return str(path), digest_of(content)


def request(
    world: RemoteWorld,
    method: str,
    path: str,
    *,
    data: bytes | None = None,
    headers: dict[str, str] | None = None,
    who: Credentials | None = None,
    settings: ServerSettings | None = None,
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of what n0 answers."""

    async def ask() -> tuple[int, bytes, dict[str, str]]:
        server = world.server("n0", credentials_of("n0"), settings)
        url = f"https://{HOST}:{await server.start(HOST)}{path}"
        context = (who or credentials_of("n1")).client_context()
        context.check_hostname = False
        async with aiohttp.ClientSession() as session:
            asked = session.request(method, url, data=data, headers=headers, ssl=context)
            async with asked as response:
                answer = (response.status, await response.read(), dict(response.headers))
        await server.close()
        return answer

    return world.run(ask())


def nothing_is_left(world: RemoteWorld) -> bool:
    return world.taken == {} and world.count_of_stray_files("n0") == 0


# --- giving --------------------------------------------------------------------------------------


def test_a_file_is_given_by_its_digest_to_every_role(world):
    (digest,) = store(world, a=b"one")

    for role in Role:
        who = authority().issue("somebody", [role])
        assert request(world, "GET", f"/files/{digest}", who=who)[:2] == (200, b"one")
    assert request(world, "GET", f"/files/{digest_of(b'two')}")[0] == 404


def test_the_size_of_a_file_is_told_without_its_content(world):
    (digest,) = store(world, a=b"one")

    status, body, headers = request(world, "HEAD", f"/files/{digest}")

    assert (status, body, headers["Content-Length"]) == (200, b"", "3")


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        ("bytes=2-", 206, b"2345"),
        ("bytes=1-3", 206, b"123"),
        ("bytes=6-", 416, None),
        ("bytes=-2", 206, b"45"),
    ],
)
def test_a_part_of_a_file_is_given(world, asked, status, body):
    (digest,) = store(world, a=b"012345")

    found = request(world, "GET", f"/files/{digest}", headers={"Range": asked})

    assert found[0] == status
    assert body in (None, found[1])


def test_a_file_that_has_gone_from_the_disk_is_not_given(world):
    (digest,) = store(world, a=b"one")
    world.lose_unnoticed("n0", "a")

    assert request(world, "GET", f"/files/{digest}")[0] == 404


def test_a_host_tells_which_files_it_has(world):
    here = store(world, a=b"one", b=b"two")
    elsewhere = digest_of(b"three")

    assert world.run(world.client("n1").have("n0", [*here, elsewhere])) == set(here)
    assert world.run(world.client("n1").have("n0", [])) == set()


def test_small_files_come_in_one_batch_in_order(world):
    contents = {f"f{i}": os.urandom(i) for i in range(50)}
    here = store(world, **contents)
    (large,) = store(world, big=bytes(SMALL_BYTES + 1))
    elsewhere = digest_of(b"elsewhere")
    asked = [elsewhere, *reversed(here), large]

    async def fetch():
        return [frame async for frame in world.client("n1").fetch_batch("n0", asked)]

    frames = world.run(fetch())

    assert [frame.digest for frame in frames] == asked
    assert [frame.content for frame in frames[1:-1]] == [*reversed(contents.values())]
    assert (frames[0].size_bytes, frames[-1].size_bytes) == (ABSENT, ALONE)


def test_a_batch_of_more_than_a_chunk_comes_whole(world):
    contents = {f"f{i}": os.urandom(SMALL_BYTES) for i in range(10)}
    here = store(world, **contents)

    async def fetch():
        return [frame.content async for frame in world.client("n1").fetch_batch("n0", here)]

    assert world.run(fetch()) == list(contents.values())


def test_too_many_files_at_once_are_refused(world):
    body = encoded_digests([digest_of(b"")] * 1001)

    assert request(world, "POST", "/files/batch", data=body)[0] == 413


@pytest.mark.parametrize("path", ["/files/have", "/files/batch"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x91\xc4\x01a",
        msgspec.msgpack.encode(["a" * 64]),
        msgspec.msgpack.encode([bytes(33)]),
        msgspec.msgpack.encode({"digests": []}),
    ],
)
def test_what_is_no_list_of_digests_is_refused(world, path, body):
    assert request(world, "POST", path, data=body)[0] == 400


def test_who_may_only_look_asks_for_no_lists_and_puts_nothing(world):
    reader = authority().issue("somebody", [Role.READ])

    assert request(world, "POST", "/files/have", data=encoded_digests([]), who=reader)[0] == 403
    assert request(world, "PUT", f"/files/{digest_of(b'x')}", data=b"x", who=reader)[0] == 403
    assert request(world, "POST", "/files/batch", data=encoded_digests([]), who=reader)[0] == 200
    assert nothing_is_left(world)


# --- taking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"one", LARGE], ids=["empty", "small", "large"])
def test_a_file_that_is_put_is_taken_whole(world, content):
    path, digest = local(world, content)

    world.run(world.client("n1").put_file("n0", path, digest))

    place = world.taken[digest]
    assert Path(place.path).read_bytes() == content
    assert place.size_bytes == len(content)
    assert world.count_of_stray_files("n0") == 0


def test_a_submitter_may_put_files(world):
    submitter = authority().issue("somebody", [Role.SUBMIT])

    assert request(world, "PUT", f"/files/{digest_of(b'x')}", data=b"x", who=submitter)[0] == 201
    assert [*world.taken] == [digest_of(b"x")]


def test_a_file_that_is_there_is_not_sent(world):
    path, digest = local(world, LARGE)
    world.run(world.client("n1").put_file("n0", path, digest))
    was = world.taken[digest]

    async def announce() -> int:
        """The status that is answered before a byte of the body was sent."""
        server = world.server("n0", credentials_of("n0"))
        port = await server.start(HOST)
        context = credentials_of("n1").client_context()
        context.check_hostname = False
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
        writer.write(
            f"PUT /files/{digest} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(LARGE)}\r\n\r\n".encode()
        )
        answer = await reader.readline()
        writer.close()
        await server.close()
        return int(answer.split()[1])

    assert world.run(announce()) == 200
    world.run(world.client("n1").put_file("n0", path, digest))
    assert world.taken[digest] is was
    assert world.count_of_stray_files("n0") == 0


def test_other_bytes_than_announced_are_refused(world):
    path, _ = local(world, b"one")

    with pytest.raises(TransferFailed, match="other bytes"):
        world.run(world.client("n1").put_file("n0", path, digest_of(b"two")))

    assert nothing_is_left(world)


def test_too_large_a_file_is_refused_before_it_is_sent(world):
    settings = ServerSettings(files=FileSettings(put_bytes_max=10))
    path = f"/files/{digest_of(bytes(11))}"

    assert request(world, "PUT", path, data=bytes(11), settings=settings)[0] == 413
    assert nothing_is_left(world)


def test_a_file_of_no_known_size_is_refused(world):
    async def pieces():
        yield b"x"

    assert request(world, "PUT", f"/files/{digest_of(b'x')}", data=pieces())[0] == 411
    assert nothing_is_left(world)


def test_a_file_that_ends_too_soon_leaves_nothing(world):
    async def break_off() -> None:
        server = world.server("n0", credentials_of("n0"))
        port = await server.start(HOST)
        context = credentials_of("n1").client_context()
        context.check_hostname = False
        _, writer = await asyncio.open_connection(HOST, port, ssl=context)
        writer.write(HALF_A_FILE)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await server.close()

    world.run(break_off())

    assert nothing_is_left(world)


def test_a_file_that_comes_too_slowly_is_given_up(world):
    async def dawdle() -> bytes:
        settings = ServerSettings(files=FileSettings(chunk_seconds=0.1))
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        context = credentials_of("n1").client_context()
        context.check_hostname = False
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
        writer.write(HALF_A_FILE)
        answer = await reader.readline()
        writer.close()
        await server.close()
        return answer

    assert b" 408 " in world.run(dawdle())
    assert nothing_is_left(world)


# --- caps ----------------------------------------------------------------------------------------


def raw_get(digest: str) -> bytes:
    return f"GET /files/{digest} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = credentials_of("n1").client_context()
    context.check_hostname = False
    return await asyncio.open_connection(HOST, port, ssl=context)


def test_who_comes_when_enough_are_served_waits_its_turn_and_is_then_sent_away(world):
    (digest,) = store(world, a=os.urandom(1 << 20) * 32)
    settings = ServerSettings(files=FileSettings(uploads_max=1, turn_seconds=0.2))

    async def ask() -> tuple[bytes, dict[bytes, bytes], bytes]:
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        slow, writer = await connect(port)
        writer.write(raw_get(digest))
        await slow.readline()  # it is being served, and reads no further
        second, other = await connect(port)
        other.write(raw_get(digest))
        refused = await second.readline()
        headers = dict([line.split(b": ") for line in await header_lines(second)])
        writer.close()  # now there is a place
        third, last = await connect(port)
        last.write(raw_get(digest))
        served = await third.readline()
        for one in (other, last):
            one.close()
        await server.close()
        return refused, headers, served

    async def header_lines(reader: asyncio.StreamReader) -> list[bytes]:
        return (await reader.readuntil(b"\r\n\r\n")).strip().split(b"\r\n")

    refused, headers, served = world.run(ask())

    assert b" 503 " in refused
    assert b"Retry-After" in headers
    assert b" 200 " in served


def test_who_does_not_read_what_it_asked_for_is_cut_off(world):
    (digest,) = store(world, a=os.urandom(1 << 20) * 32)
    settings = ServerSettings(files=FileSettings(uploads_max=1, chunk_seconds=0.2))

    async def ask() -> bytes:
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        slow, writer = await connect(port)
        writer.write(raw_get(digest))
        await slow.readline()
        other, last = await connect(port)
        last.write(raw_get(digest))
        served = await other.readline()
        for one in (writer, last):
            one.close()
        await server.close()
        return served

    assert b" 200 " in world.run(ask())


def test_who_puts_a_file_while_enough_are_taken_waits_its_turn_and_is_then_sent_away(world):
    settings = ServerSettings(files=FileSettings(puts_max=1, turn_seconds=0.2))

    async def put() -> bytes:
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        _, slow = await connect(port)
        slow.write(HALF_A_FILE)
        await slow.drain()
        reader, other = await connect(port)
        other.write(HALF_A_FILE)
        refused = await reader.readline()
        for one in (slow, other):
            one.close()
        await server.close()
        return refused

    assert b" 503 " in world.run(put())
    assert nothing_is_left(world)
