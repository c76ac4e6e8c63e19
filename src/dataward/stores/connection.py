"""The way to a Valkey or Redis server, or to the servers of a cluster.

A command goes to the server that has its key. What may be well again soon is `StoreUnavailable`;
what will not be until somebody changes a setting is a `SettingError`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar

from valkey.asyncio import Valkey
from valkey.crc import key_slot
from valkey.exceptions import (
    AuthenticationError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from dataward.errors import SettingError
from dataward.stores.address import ServerAddress, read_address
from dataward.world import StoreUnavailable

SLOTS = 16384

CONNECTIONS_MAX = 16  # to each server, for calls; each wait has one more for itself
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
REFUSAL_SECONDS = 2.0  # by when a server that wants another certificate has said so
REDIRECTS_MAX = 5
SETTLED_MS = 60_000  # after which a key that was written only for its replication is gone

Words = tuple[str | bytes | int, ...]
T = TypeVar("T")

# A server or a cluster that says one of these may be well again soon.
_UNAVAILABLE = (ConnectionError, OSError, OutOfMemoryError, ReadOnlyError, TimeoutError)
_UNAVAILABLE_WORDS = (
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "TRYAGAIN",
    "UNBLOCKED",  # of a wait, when its server became a replica
    "UNKILLABLE",
)
# What OpenSSL says if the other side, or its certificate, is not what was expected.
_TLS_WORDS = ("CERTIFICATE", "UNKNOWN_CA", "WRONG_VERSION_NUMBER")


class Moved(Exception):  # noqa: N818 - it is followed
    """Another server of the cluster has the slot."""

    def __init__(self, said: str) -> None:
        _, slot, place = said.split()[:3]
        host, _, port = place.rpartition(":")
        self.slot, self.host, self.port = int(slot), host, int(port)


class Server:
    """One server: a few connections for calls, and one more for each wait."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        options = {**address.options(), "socket_connect_timeout": CONNECT_SECONDS}
        self._calls = Valkey(**options, socket_timeout=ANSWER_SECONDS)
        self._waits = Valkey(**options, socket_timeout=None)
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)

    async def send(self, words: Words) -> Any:
        async with self._judging(), self._room:
            return await self._calls.execute_command(*words)  # type: ignore[no-untyped-call]

    async def send_many(self, commands: Sequence[Words]) -> list[Any]:
        """One answer for each; where a command failed, the exception."""
        async with (
            self._judging(),
            self._room,
            self._calls.pipeline(transaction=False) as pipeline,
        ):
            for words in commands:
                pipeline.execute_command(*words)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
            return answers

    async def wait(self, seconds: float, words: Words) -> Any:
        """Send a command whose answer the server may keep back for so long."""
        async with self._judging(), asyncio.timeout(seconds + ANSWER_SECONDS):
            return await self._waits.execute_command(*words)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self._calls.aclose()
        await self._waits.aclose()

    @asynccontextmanager
    async def _judging(self) -> AsyncIterator[None]:
        place = self.address.place
        try:
            yield
        except NoPermissionError as error:
            raise SettingError(f"the store at {place} refuses this user ({error})") from None
        except _UNAVAILABLE as error:
            if any(isinstance(each, AuthenticationError) for each in _causes(error)):
                raise SettingError(f"the store at {place} refuses this user ({error})") from None
            if why := _tls_trouble(error) or await _refusal(self.address, error):
                raise SettingError(
                    f"no safe connection to the store at {place} can be made ({why})"
                ) from None
            said = str(error) or "it took too long"
            raise StoreUnavailable(f"the store at {place} does not answer ({said})") from error
        except ResponseError as error:
            said = str(error)
            if said.startswith("MOVED "):
                raise Moved(said) from None
            if said.startswith("DB index"):
                raise SettingError(f"the store at {place} has no database of this number") from None
            if said.startswith(_UNAVAILABLE_WORDS):
                raise StoreUnavailable(f"the store at {place} does not answer ({said})") from error
            raise


class Connection:
    """The way to a server, or to all servers of the cluster that it belongs to.

    Which of the two it is, is found out at the first command. Any number of stores may share a
    connection; whoever made it closes it.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._seed = Server(address)
        self._servers = {(address.host, address.port): self._seed}
        self._guides = [self._seed]  # to be asked who has which slot, the best first
        self._is_cluster: bool | None = None
        self._owners: list[Server | None] = []  # by slot
        self._replicated: dict[Server, bool] = {}  # whether a replica was known at the last look
        self._is_known = False  # whether a look has told how things are
        self._look_alone = asyncio.Lock()

    async def send(self, key: str, *words: str | bytes | int) -> Any:
        """The answer of the server that has the key."""
        return await self._ask(key, lambda server: server.send(words))

    async def send_many(self, commands: Sequence[tuple[str, Words]]) -> list[Any]:
        """The answers to commands, each with its key first. All must be safe to send twice."""
        places: dict[Server, list[int]] = {}
        for place, (key, _) in enumerate(commands):
            places.setdefault(await self._server_of(key), []).append(place)
        parts = (
            server.send_many([commands[place][1] for place in mine])
            for server, mine in places.items()
        )
        answers: list[Any] = [None] * len(commands)
        for mine, found in zip(
            places.values(), await asyncio.gather(*parts, return_exceptions=True), strict=True
        ):
            if isinstance(found, BaseException):
                self._is_known = False
                raise found
            for place, answer in zip(mine, found, strict=True):
                if isinstance(answer, Exception):
                    key, words = commands[place]
                    answer = await self.send(key, *words)  # which follows a slot, or raises
                answers[place] = answer
        return answers

    async def wait(self, key: str, seconds: float, *words: str | bytes | int) -> Any:
        """As `send`, for a command that blocks on the server; it delays no other."""
        return await self._ask(key, lambda server: server.wait(seconds, words))

    async def settle(self, key: str, wait_seconds: float) -> bool:
        """Whether a replica of the key's server has all that the server has acknowledged by now.

        True at once if no replica is known. Else what has been acknowledged would be lost if the
        server were lost now. The key is written to: a server waits only for the writes that came by
        the same connection, and for all before them.
        """
        server = await self._server_of(key)
        if not self._replicated.get(server):
            return True
        words: list[Words] = [
            ("SET", key, "", "PX", SETTLED_MS),
            ("WAIT", 1, round(wait_seconds * 1000)),
        ]
        try:
            answers = await server.send_many(words)
        except StoreUnavailable:
            self._is_known = False
            raise
        if isinstance(answers[0], Exception) or isinstance(answers[1], Exception):
            self._is_known = False  # another server has the slot now
            return False
        return int(answers[1]) > 0

    async def primaries(self) -> int:
        """How many servers share the slots; 1 if it is no cluster."""
        await self._server_of("")
        return len({id(owner) for owner in self._owners if owner is not None}) or 1

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, key: str, question: Callable[[Server], Awaitable[T]]) -> T:
        for _ in range(REDIRECTS_MAX):
            server = await self._server_of(key)
            try:
                return await question(server)
            except Moved as moved:
                owner = self._server_at(moved.host or server.address.host, moved.port)
                self._owners[moved.slot] = owner
            except StoreUnavailable:
                self._is_known = False  # a replica may have taken over
                raise
        raise StoreUnavailable("the store's servers do not agree on who has which slot")

    async def _server_of(self, key: str) -> Server:
        if not self._is_known:
            async with self._look_alone:
                if not self._is_known:
                    await self._look()
        if not self._is_cluster:
            return self._seed
        owner = self._owners[key_slot(key.encode())]
        if owner is None:
            self._is_known = False
            raise StoreUnavailable("no server of the store's cluster has this slot")
        return owner

    async def _look(self) -> None:
        """Find out who has which slot, from the first server that says it."""
        trouble = StoreUnavailable("the store has no server")
        for guide in list(self._guides):
            try:
                if self._is_cluster is None:
                    self._is_cluster = await _is_in_cluster(guide)
                if self._is_cluster:
                    self._learn(guide, await guide.send(("CLUSTER", "SLOTS")))
                self._is_known = True
                return
            except StoreUnavailable as error:
                trouble = error
                self._guides.remove(guide)
                self._guides.append(guide)
        raise trouble

    def _learn(self, guide: Server, slots: list[Any]) -> None:
        owners: list[Server | None] = [None] * SLOTS
        known = [guide]
        self._replicated = {}
        for first, last, *servers in slots:
            found = [self._server_at(_host(server, guide), server[1]) for server in servers]
            owners[first : last + 1] = [found[0]] * (last + 1 - first)
            self._replicated[found[0]] = len(found) > 1
            known += found
        # The address that was given is never forgotten: all others may be gone one day.
        self._owners = owners
        self._guides = list(dict.fromkeys([*known, self._seed]))

    def _server_at(self, host: str, port: int) -> Server:
        server = self._servers.get((host, port))
        if server is None:
            server = Server(replace(self._seed.address, host=host, port=port, path=""))
            self._servers[host, port] = server
        return server


def connect(url: str) -> Connection:
    """The way to the store at a URL. Nothing is sent yet; a wrong URL raises SettingError."""
    return Connection(read_address(url))


async def _is_in_cluster(server: Server) -> bool:
    return bool((await server.send(("INFO", "cluster")))["cluster_enabled"])


def _host(described: list[Any], guide: Server) -> str:
    """A server that does not know its own address is at the one where it was asked."""
    host = (described[0] or b"").decode()
    return guide.address.host or "127.0.0.1" if host in ("", "?") else host


def _tls_trouble(error: BaseException) -> str:
    """Why a safe connection will not be made next time either; "" if it may be."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            reason = cause.reason or ""
            return reason if any(word in reason for word in _TLS_WORDS) else ""
    return ""


async def _refusal(address: ServerAddress, error: BaseException) -> str:
    """Why a server that ended a connection did not want it, as far as it says so; or "".

    It refuses a client's certificate after the client takes the connection for made. Who writes at
    once may only learn that the connection is gone; so one is made on which nothing is written.
    """
    if not address.tls or not any(
        isinstance(each, ConnectionResetError | BrokenPipeError) for each in _causes(error)
    ):
        return ""
    context = ssl.create_default_context(cafile=address.ca)
    if address.cert:
        context.load_cert_chain(address.cert, address.key)
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            try:
                await reader.read(1)
            finally:
                writer.close()
    except OSError as said:
        return _tls_trouble(said)
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised for, and so on: the client wraps some errors in others."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
