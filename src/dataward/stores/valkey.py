"""The store on a Valkey server or cluster (Redis 7 as well), for nodes on several machines.

The rules of a shard are functions on the server, written in Lua beside this file, so that a call of
a node is one request for each shard. What the rules are is said in ``task_rules``, ``node_rules``
and ``patrol_rules``; the Lua files have the same names in the same order.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Protocol, Self

import msgspec
from valkey.asyncio import Valkey, ValkeyCluster
from valkey.crc import key_slot
from valkey.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
    TryAgainError,
    ValkeyClusterException,
)

from dataward.errors import SettingError
from dataward.model.answers import Answer
from dataward.model.operations import Operation, Submit, shard_of
from dataward.model.workflow import TaskId
from dataward.world import StoreUnavailable

# Longer calls are cut in pieces: a server does nothing else while it applies one.
OPERATIONS_MAX = 500

SLOTS = 16384

# A server or a cluster that says one of these may be well again soon.
_UNAVAILABLE = (
    AskError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    OSError,
    ReadOnlyError,
    TimeoutError,
    TryAgainError,
    ValkeyClusterException,
)
_UNAVAILABLE_WORDS = (
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "LOADING",
    "CLUSTERDOWN",
    "UNKILLABLE",
)


class PackedSubmit(msgspec.Struct, frozen=True, tag="Submit"):
    """A `Submit` as the server reads it: the spec is a string, which comes back as it was."""

    task: TaskId
    spec: msgspec.Raw
    again: bool


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one call asks of one shard; ``now`` only if the clock is not the server's."""

    shards: int
    seen_epoch: int
    seen_run: str
    operations: list[Operation | PackedSubmit]
    now: float | None = None


class Reply(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    run: str  # the run id of the server process that answered
    answers: list[Answer]


class Connection(Protocol):
    """The way to the server that has a key."""

    async def send(self, key: str, *words: str | bytes) -> Any: ...

    async def close(self) -> None: ...


class ServerConnection:
    """The way to a single server."""

    def __init__(self, client: Valkey) -> None:
        self._client = client

    async def send(self, key: str, *words: str | bytes) -> Any:
        return await self._client.execute_command(*words)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self._client.aclose()


class ClusterConnection:
    """The way to the servers of a cluster. The client follows slots that move."""

    def __init__(self, client: ValkeyCluster) -> None:
        self._client = client

    async def send(self, key: str, *words: str | bytes) -> Any:
        # Left to itself, the client asks a server for the keys of each function call.
        await self._client.initialize()
        node = self._client.get_node_from_key(key)
        return await self._client.execute_command(*words, target_nodes=node)

    async def close(self) -> None:
        await self._client.aclose()


class ValkeyStore:
    """Shards on a server or on the primaries of a cluster.

    ``name`` tells stores on the same servers apart. All who use a store must give the same number
    of shards. Time is the server's; only tests give a ``clock``.
    """

    def __init__(
        self,
        connection: Connection,
        name: str = "dataward",
        shards: int = 1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.shard_count = shards
        self.calls = 0
        self._connection = connection
        self._clock = clock
        self._tags = [tag_of(name, index, shards) for index in range(shards)]
        self._seen: list[tuple[int, str]] = [(-1, "")] * shards  # the last epoch of each, its run
        self._function = library()[0]
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Reply).decode

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        self.calls += 1
        by_shard: dict[int, list[int]] = {}
        for place, operation in enumerate(operations):
            by_shard.setdefault(shard_of(operation, self.shard_count), []).append(place)
        parts = (
            self._call_shard(shard, [operations[place] for place in places])
            for shard, places in by_shard.items()
        )
        results = await asyncio.gather(*parts, return_exceptions=True)
        answers: dict[int, Answer] = {}
        for places, result in zip(by_shard.values(), results, strict=True):
            if isinstance(result, BaseException):
                raise result
            answers.update(zip(places, result, strict=True))
        return [answers[place] for place in range(len(operations))]

    async def loose_ends(self) -> dict[str, int]:
        """As `Shard.loose_ends`, for all shards together. It reads all tasks."""
        total: dict[str, int] = {}
        for tag in self._tags:
            packed = await self._send(tag, "FCALL", f"{self._function}_loose_ends", "1", tag)
            for name, count in msgspec.msgpack.decode(packed, type=dict[str, int]).items():
                total[name] = total.get(name, 0) + count
        return total

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call_shard(self, shard: int, operations: list[Operation]) -> list[Answer]:
        answers: list[Answer] = []
        for first in range(0, len(operations), OPERATIONS_MAX):
            answers += await self._call_once(shard, operations[first : first + OPERATIONS_MAX])
        return answers

    async def _call_once(self, shard: int, operations: list[Operation]) -> list[Answer]:
        now = self._clock() if self._clock is not None else None
        packed = [self._packed(op) if type(op) is Submit else op for op in operations]
        asked = Asked(self.shard_count, *self._seen[shard], packed, now)
        tag = self._tags[shard]
        answer = await self._send(tag, "FCALL", self._function, "1", tag, self._encode(asked))
        reply = self._decode(answer)
        assert len(reply.answers) == len(operations), "each operation has one answer"
        if reply.epoch >= self._seen[shard][0]:
            self._seen[shard] = (reply.epoch, reply.run)
        return reply.answers

    def _packed(self, op: Submit) -> PackedSubmit:
        spec = self._encode(op.spec)
        # As msgpack's str: the server's own reader of msgpack does not know its bin.
        raw = b"\xdb" + len(spec).to_bytes(4, "big") + spec
        return PackedSubmit(op.spec.id, msgspec.Raw(raw), op.again)

    async def _send(self, tag: str, *words: str | bytes) -> Any:
        try:
            try:
                return await self._connection.send(tag, *words)
            except ResponseError as error:
                if "function not found" not in str(error).lower():
                    raise
            await self._load(tag)
            return await self._connection.send(tag, *words)
        except AuthenticationError:
            raise
        except _UNAVAILABLE as error:
            raise StoreUnavailable(f"the store does not answer ({error})") from error
        except ResponseError as error:
            self._explain(error)
            raise

    async def _load(self, tag: str) -> None:
        """Give the rules to the server that has this shard; its replicas get them from it."""
        try:
            await self._connection.send(tag, "FUNCTION", "LOAD", library()[1])
        except ResponseError as error:
            if "already exists" not in str(error):  # somebody else was faster
                raise

    def _explain(self, error: ResponseError) -> None:
        said = str(error)
        if said.startswith("SHARDS"):
            raise SettingError(
                f"this store has {said.split()[1]} shards, "
                f"so it cannot be opened with {self.shard_count}"
            ) from error
        if said.startswith(_UNAVAILABLE_WORDS):
            raise StoreUnavailable(f"the store does not answer ({said})") from error


def connect_to_server(**options: Any) -> ServerConnection:
    """The way to a server. ``options`` are those of `valkey.asyncio.Valkey`."""
    return ServerConnection(Valkey(**{"socket_timeout": 10.0, **options}))


def connect_to_cluster(host: str, port: int, **options: Any) -> ClusterConnection:
    """The way to a cluster, one of whose servers is at this address."""
    return ClusterConnection(ValkeyCluster(host, port, **{"socket_timeout": 10.0, **options}))


def tag_of(name: str, index: int, shards: int) -> str:
    """The hash tag of a shard, with which all its keys begin.

    Shards are spread evenly over the slots of a cluster, whatever the store's name: of the tags
    that differ in a last number, it is the first whose slot is in this shard's share of all slots.
    Every process, of any version, must compute the same.
    """
    first, end = index * SLOTS // shards, (index + 1) * SLOTS // shards
    number = 0
    while True:
        tag = f"{{{name}.{index}.{number}}}"
        if first <= key_slot(tag.encode()) < end:
            return tag
        number += 1


@cache
def library() -> tuple[str, str]:
    """The name of the function that applies operations, and the code that has it.

    The name contains a digest of the code, so that a server may have the rules of several versions
    at once, and a caller gets those that it knows.
    """
    folder = files("dataward.stores") / "valkey_rules"
    parts = sorted((part for part in folder.iterdir()), key=lambda part: part.name)
    rules = "\n".join(part.read_text("utf-8") for part in parts if part.name.endswith(".lua"))
    name = f"dataward_{blake2b(rules.encode(), digest_size=6).hexdigest()}"
    code = (
        f"#!lua name={name}\n{rules}\n"
        f"redis.register_function('{name}', apply)\n"
        f"redis.register_function{{function_name='{name}_loose_ends', callback=loose_ends, "
        "flags={'no-writes'}}\n"
    )
    return name, code
