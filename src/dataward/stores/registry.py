"""A cluster's own small state on the store's servers: its hosts, its runs, and known outcomes.

Everything here can be told again by the hosts, should a server forget it. What the tasks of a run
do is left to the run's own store.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from dataward.errors import FormatError, SettingError
from dataward.model.ids import NodeId
from dataward.model.members import RUN_NAME, ClusterRun, Member, RunPromise, RunState
from dataward.stores.connection import Connection
from dataward.stores.server_functions import ServerFunctions

# A waiting host looks at the leases no more often than this.
LOOK_SECONDS_MIN = 0.02

# So many outcomes go to the servers at once.
OUTCOMES_MAX = 1000

# Before each outcome: for how many seconds it is kept after it was last read.
KEEP_BYTES = 4

T = TypeVar("T")


class Registry:
    """The hosts and runs of one cluster. Time is the server's.

    Every method raises StoreUnavailable, after which it may or may not have taken effect; each is
    safe to repeat.
    """

    def __init__(self, connection: Connection, cluster: str) -> None:
        self._connection = connection
        self._tag = f"{{registry/{cluster}}}"
        self._outcomes = f"outcome/{cluster}/"

    async def now(self) -> float:
        """The server's time, in seconds since 1970."""
        seconds, microseconds = await self._connection.send(self._tag, "TIME")
        return int(seconds) + int(microseconds) / 1e6

    async def birth(self) -> str:
        """A word that stays the same until the server forgets everything."""
        key = f"{self._tag}birth"
        await self._connection.send(self._tag, "SET", key, token_hex(8), "NX")
        return str((await self._connection.send(self._tag, "GET", key)).decode())

    async def server_run(self) -> str:
        """The server process that answers: another one, after a restart or a failover.

        It may have lost what the one before it had acknowledged last.
        """
        told = await self._connection.send(self._tag, "INFO", "server")
        return str(told["run_id"])

    # --- hosts -----------------------------------------------------------------------------------

    async def renew(self, member: Member, lease_seconds: float) -> None:
        """Be a member for so long. It is news if the member was not known, or was different."""
        packed = msgspec.msgpack.encode(member)
        await self._call("renew", member.node, packed, round(lease_seconds * 1000))

    async def drop(self, member: Member) -> None:
        """Have a member leave that ends, or was seen to have ended, if it is known as this."""
        await self._call("drop", member.node, msgspec.msgpack.encode(member))

    async def members(self) -> list[Member]:
        """Those whose leases have not run out, by name."""
        found = [_read(packed, Member) for packed in await self._call("members")]
        return sorted(found, key=lambda member: member.node)

    async def next_incarnation(self, node: NodeId, after: int = 0) -> int:
        """A number above ``after``, and above all that this node was given before.

        A server that forgot the numbers begins again: the host knows its last one, too.
        """
        return int(await self._call("next_incarnation", node, after))

    # --- runs ------------------------------------------------------------------------------------

    async def add_run(self, run: ClusterRun) -> ClusterRun:
        """The run as it is recorded; if it is there already it stays as it is.

        A run without ``submitted_at`` gets the server's time. Raises SettingError if it cannot be
        called so, or if another run is.
        """
        if not re.fullmatch(RUN_NAME, run.name):
            raise SettingError(
                f"a run cannot be called {run.name!r}; it takes small letters, digits and -"
            )
        packed = msgspec.msgpack.encode(run)
        added = _read(await self._call("add_run", run.name, packed), ClusterRun)
        if added.description != run.description:
            raise SettingError(f"there is a run called {run.name} already; give another name")
        return added

    async def runs(self) -> list[ClusterRun]:
        """All of them, in the order they were submitted in; then by name."""
        packed = await self._connection.send(self._tag, "HVALS", f"{self._tag}runs")
        found = [_read(each, ClusterRun) for each in packed]
        return sorted(found, key=lambda run: (run.submitted_at, run.name))

    async def run(self, name: str) -> ClusterRun | None:
        return _run(await self._connection.send(self._tag, "HGET", f"{self._tag}runs", name))

    async def end_run(self, name: str, state: RunState) -> ClusterRun | None:
        """The run, ended in this way unless it had ended before; None if it is not known."""
        return _run(await self._call("end_run", name, state.value))

    async def set_keepers(self, name: str, keepers: Sequence[NodeId]) -> ClusterRun | None:
        """The run with other keepers; None if it is not known."""
        return _run(await self._call("set_keepers", name, msgspec.msgpack.encode(keepers)))

    async def set_promise(self, name: str, promise: RunPromise) -> ClusterRun | None:
        """The run with another promise; None if it is not known."""
        return _run(await self._call("set_promise", name, msgspec.msgpack.encode(promise)))

    async def drop_run(self, name: str) -> None:
        await self._call("drop_run", name)

    # --- news ------------------------------------------------------------------------------------

    async def news(self, since: str, wait_seconds: float) -> str:
        """The position of the news once something has changed after ``since``, or the time is over.

        "" stands for now. It says only that members or runs have changed: read them again. The end
        of a lease is news, too. A server that forgot everything has other news than before.
        """
        left = wait_seconds
        position, lease_seconds = await self._look()
        since = since or position
        while position == since and left > 0:
            # Nobody is told when a lease runs out, so somebody has to look.
            seconds = min(left, max(lease_seconds, LOOK_SECONDS_MIN))
            left -= seconds
            await self._wait(since, seconds)
            position, lease_seconds = await self._look()
        return position

    async def _look(self) -> tuple[str, float]:
        """The last position, and how long it is until the next lease ends."""
        position, lease_ms = await self._call("look")
        return position.decode(), lease_ms / 1000 if lease_ms >= 0 else float("inf")

    async def _wait(self, since: str, seconds: float) -> None:
        stream, ms = f"{self._tag}news", max(1, round(seconds * 1000))
        words = ("XREAD", "COUNT", 1, "BLOCK", ms, "STREAMS", stream, since)
        await self._connection.wait(self._tag, seconds, *words)

    # --- outcomes --------------------------------------------------------------------------------

    async def known(self, keys: Sequence[str]) -> list[bytes | None]:
        """What was remembered under each key. It is kept for as long again."""
        found: list[bytes | None] = []
        for some in _pieces(keys):
            names = [self._outcomes + key for key in some]
            found += await self._connection.send_many([(name, ("GET", name)) for name in names])
            kept = zip(names, found[-len(names) :], strict=True)
            await self._connection.send_many(
                [
                    (name, ("EXPIRE", name, int.from_bytes(value[:KEEP_BYTES], "big")))
                    for name, value in kept
                    if value is not None
                ]
            )
        return [value if value is None else value[KEEP_BYTES:] for value in found]

    async def remember(self, items: Mapping[str, bytes], keep_seconds: float) -> None:
        """Keep values for so long after they were last read."""
        seconds = max(1, round(keep_seconds))
        before = seconds.to_bytes(KEEP_BYTES, "big")
        for some in _pieces(list(items)):
            await self._connection.send_many(
                [
                    (name, ("SET", name, before + items[key], "EX", seconds))
                    for key in some
                    for name in [self._outcomes + key]
                ]
            )

    async def _call(self, function: str, *arguments: str | bytes | int) -> Any:
        return await library().call(self._connection, function, self._tag, *arguments)


@cache
def library() -> ServerFunctions:
    rules = (files("dataward.stores") / "registry.lua").read_text("utf-8")
    functions = (
        *("renew", "drop", "members", "next_incarnation"),
        *("add_run", "end_run", "set_keepers", "set_promise", "drop_run", "look"),
    )
    return ServerFunctions("registry", rules, {each: f"callback={each}" for each in functions})


def _read(packed: bytes, type: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(packed, type=type)
    except msgspec.MsgspecError as error:
        raise FormatError(
            "the cluster's registry", f"has a {type.__name__} that cannot be read ({error})"
        ) from error


def _run(packed: bytes | None) -> ClusterRun | None:
    return None if packed is None else _read(packed, ClusterRun)


def _pieces(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[first : first + OUTCOMES_MAX] for first in range(0, len(keys), OUTCOMES_MAX))
