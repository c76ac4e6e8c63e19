"""What a host's server takes and refuses; `test_attackers` tries it byte by byte."""

import asyncio
import pickle
import ssl
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp import web
from yarl import URL

from conformance.both_worlds import a_world_of
from conformance.remote_world import HOST, RUN, RemoteWorld, authority, credentials_of
from dataward.live.credentials import Credentials, Role
from dataward.live.door import DoorSettings
from dataward.live.node_server import Mail, NodeServer, Route, ServerSettings, mail_path
from dataward.model.messages import Stop, WorkQueued

NO_DIGEST = "0" * 64
MESSAGES = mail_path(RUN)
A_MAIL = msgspec.msgpack.encode(Mail("n1", (WorkQueued(),)))


@pytest.fixture
def world(request) -> Iterator[RemoteWorld]:
    return a_world_of(RemoteWorld, request)


def context_of(credentials: Credentials | None) -> ssl.SSLContext:
    """As a client would use it that checks nothing itself."""
    context = credentials.client_context() if credentials else ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(
    world: RemoteWorld,
    credentials: Credentials | None,
    path: str = MESSAGES,
    body: bytes | None = A_MAIL,
) -> int:
    """The status that n0 answers with."""

    async def request() -> int:
        url = f"https://{world.addresses['n0']}{path}"
        async with aiohttp.ClientSession() as session:
            context = context_of(credentials)
            if body is None:
                asked = session.get(URL(url, encoded=True), ssl=context)
            else:
                asked = session.post(url, data=BytesIO(body), ssl=context)
            async with asked as response:
                return response.status

    return world.run(request())


def still_serves(world: RemoteWorld) -> bool:
    """Whether n0 takes the message of another node, and nothing of what came before it."""
    world.networks["n1"].send("n0", Stop("t", 1))
    world.run(world.arrival())
    return world.networks["n0"].inbox.take_all() == [Stop("t", 1)]


def test_a_node_is_let_in(world):
    assert ask(world, credentials_of("n1")) == 204
    assert world.networks["n0"].inbox.take_all() == [WorkQueued()]


def test_nobody_else_can_pose_as_a_node(world):
    """A server with a submitter's certificate is not believed, though the cluster issued it."""

    async def pose() -> asyncio.Server:
        submitter = authority().issue("somebody", [Role.SUBMIT])
        context = submitter.server_context()
        return await asyncio.start_server(lambda *_: None, HOST, 0, ssl=context)

    posing = world.run(pose())
    world.addresses["n2"] = f"{HOST}:{posing.sockets[0].getsockname()[1]}"

    async def close() -> None:
        posing.close()
        await posing.wait_closed()

    assert not world.run(world.client("n0").leave_mail("n2", RUN, A_MAIL))
    world.run(close())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x92\xa1\x80",
        pickle.dumps([WorkQueued()]),
        b'["n1", [{"type": "work-queued"}]]',
        msgspec.msgpack.encode(["n1", [{"type": "no-such-message"}]]),
        msgspec.msgpack.encode(["n1", [{"type": "stop", "task": 1, "generation": "x"}]]),
        msgspec.msgpack.encode({"sender": "n1"}),
    ],
    ids=[
        "empty",
        "a byte",
        "bad UTF-8",
        "a pickle",
        "JSON",
        "an unknown message",
        "wrong types",
        "a map",
    ],
)
def test_what_is_no_mail_is_refused_and_nothing_of_it_arrives(world, body):
    assert ask(world, credentials_of("n1"), body=body) == 400
    assert still_serves(world)


def test_mail_for_a_run_that_is_not_here_is_refused(world):
    assert ask(world, credentials_of("n1"), mail_path("another-run")) == 404
    assert ask(world, credentials_of("n1"), mail_path("../x")) == 404
    assert ask(world, credentials_of("n1"), mail_path("A")) == 404
    assert ask(world, credentials_of("n1"), mail_path("a" * 81)) == 404
    assert still_serves(world)


def test_who_says_nothing_is_cut_off(world):
    """A connection without a handshake holds nothing for long, and keeps nobody else out."""

    async def say_nothing() -> bytes:
        settings = ServerSettings(door=DoorSettings(handshake_seconds=0.2))
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            with suppress(ConnectionError):
                return await reader.read()  # until the other end closes
            return b""
        finally:
            writer.close()
            await server.close()

    assert world.run(say_nothing()) == b""


def test_a_full_inbox_refuses_more(world):
    async def fill() -> list[int]:
        settings = ServerSettings(inbox_max=2)
        server = world.server("n0", credentials_of("n0"), settings)
        port = await server.start(HOST)
        answers = []
        async with aiohttp.ClientSession() as session:
            for _ in range(4):
                url = f"https://{HOST}:{port}{MESSAGES}"
                context = context_of(credentials_of("n1"))
                async with session.post(url, data=A_MAIL, ssl=context) as response:
                    answers.append(response.status)
        await server.close()
        return answers

    assert world.run(fill()) == [204, 204, 204, 503]


def test_without_credentials_it_serves_this_machine_in_the_clear(world):
    async def plain() -> tuple[str, int]:
        server = world.server("n0", None)
        url = f"http://{HOST}:{await server.start(HOST)}{MESSAGES}"
        async with aiohttp.ClientSession() as session, session.post(url, data=A_MAIL) as response:
            status = response.status
        await server.close()
        return urlsplit(url).scheme, status

    assert world.run(plain()) == ("http", 204)


@pytest.mark.parametrize(
    ("role", "status"), [(Role.SUBMIT, 200), (Role.READ, 403), (Role.NODE, 403)]
)
def test_another_room_adds_paths_for_roles_of_its_choice(world, role, status):
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def ask_for_it() -> tuple[int, bytes]:
        route = Route("POST", "/echo/{word}", echo, frozenset({Role.SUBMIT}))
        server = NodeServer(
            lambda run: None,
            lambda digest: None,
            world.disks["n0"].path_for_incoming,
            lambda *taken: None,
            credentials_of("n0"),
            routes=[route],
        )
        url = f"https://{HOST}:{await server.start(HOST)}/echo/a"
        context = context_of(authority().issue("somebody", [role]))
        async with aiohttp.ClientSession() as session:
            asked = session.post(url, data=b"body", ssl=context, expect100=True)
            async with asked as response:
                answer = response.status, await response.read()
        await server.close()
        return answer

    found, body = world.run(ask_for_it())

    assert found == status
    assert (body == b"body") == (status == 200)
