"""The store on a Valkey server or cluster (Redis 7 as well), for nodes on several machines.

The rules of a shard are functions on the server, written in Lua beside this file, so that a call of
a node is one request for each shard. What the rules are is said in ``task_rules``, ``node_rules``
and ``patrol_rules``; the Lua files have the same names in the same order.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

import msgspec
from valkey.crc import key_slot
from valkey.exceptions import ResponseError

from dataward.errors import SettingError
from dataward.model.answers import Answer
from dataward.model.operations import Operation, shard_of
from dataward.stores.connection import SLOTS, Connection
from dataward.stores.packed_operations import Run, runs_of
from dataward.stores.server_functions import ServerFunctions

# Longer calls are cut in pieces: a server does nothing else while it applies one.
OPERATIONS_MAX = 500

# So many tasks, nodes or inputs are erased in one piece.
ERASED_MAX = 500


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one call asks of one shard; ``now`` only if the clock is not the server's."""

    shards: int
    seen_epoch: int
    seen_run: str
    runs: list[Run]
    now: float | None = None


class Reply(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    run: str  # the run id of the server process that answered
    answers: list[Answer]


class ValkeyStore:
    """Shards on a server or on the primaries of a cluster.

    ``name`` tells stores on the same servers apart; any number of them may share a connection. All
    who use a store must give the same number of shards. Time is the server's; only tests give a
    ``clock``.
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
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Reply).decode

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        self.calls += 1
        if self.shard_count == 1:
            return await self._call_shard(0, operations)
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
            packed = await library().call(self._connection, "loose_ends", tag)
            for name, count in msgspec.msgpack.decode(packed, type=dict[str, int]).items():
                total[name] = total.get(name, 0) + count
        return total

    async def erase(self) -> None:
        """Remove all that the servers have of this store, a bounded piece at a time.

        Nobody may use the store any more: a call that comes late would begin it anew.
        """
        for tag in self._tags:
            while await library().call(self._connection, "erase", tag, ERASED_MAX):
                pass

    async def settle(self, wait_seconds: float) -> bool:
        """Whether all shards have replicas that know everything acknowledged so far, if any."""
        waits = (self._connection.settle(f"{tag}settled", wait_seconds) for tag in self._tags)
        return all(await asyncio.gather(*waits))

    async def _call_shard(self, shard: int, operations: Sequence[Operation]) -> list[Answer]:
        answers: list[Answer] = []
        for first in range(0, len(operations), OPERATIONS_MAX):
            answers += await self._call_once(shard, operations[first : first + OPERATIONS_MAX])
        return answers

    async def _call_once(self, shard: int, operations: Sequence[Operation]) -> list[Answer]:
        now = self._clock() if self._clock is not None else None
        asked = Asked(self.shard_count, *self._seen[shard], runs_of(operations), now)
        try:
            answer = await library().call(
                self._connection, "apply", self._tags[shard], self._encode(asked)
            )
        except ResponseError as error:
            self._explain(error)
            raise
        reply = self._decode(answer)
        assert len(reply.answers) == len(operations), "each operation has one answer"
        if reply.epoch >= self._seen[shard][0]:
            self._seen[shard] = (reply.epoch, reply.run)
        return reply.answers

    def _explain(self, error: ResponseError) -> None:
        said = str(error)
        if said.startswith("SHARDS"):
            raise SettingError(
                f"this store has {said.split()[1]} shards, "
                f"so it cannot be opened with {self.shard_count}"
            ) from error


def tag_of(name: str, index: int, shards: int) -> str:
    """The hash tag of a shard, with which all its keys begin.

    Shards are spread evenly over the slots of a cluster, whatever the store's name: of the tags
    that differ in a last number, it is the first whose slot is in this shard's share of all slots.
    Every process, of any version, must compute the same.
    """
    if "}" in name:
        raise SettingError(f"a store's name cannot contain a brace, as {name!r} does")
    first, end = index * SLOTS // shards, (index + 1) * SLOTS // shards
    number = 0
    while True:
        tag = f"{{{name}.{index}.{number}}}"
        if first <= key_slot(tag.encode()) < end:
            return tag
        number += 1


def rules() -> str:
    """The rules of a shard, in Lua."""
    folder = files("dataward.stores") / "valkey_rules"
    parts = sorted((part for part in folder.iterdir()), key=lambda part: part.name)
    return "\n".join(part.read_text("utf-8") for part in parts if part.name.endswith(".lua"))


def library_of(rules: str) -> ServerFunctions:
    functions = {
        "apply": "callback=apply",
        "erase": "callback=erase",
        "loose_ends": "callback=loose_ends, flags={'no-writes'}",
    }
    return ServerFunctions("dataward", rules, functions)


@cache
def library() -> ServerFunctions:
    """The functions of a shard."""
    return library_of(rules())
