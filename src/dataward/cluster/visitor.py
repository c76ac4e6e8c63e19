"""Asks the hosts of a cluster, in the name of somebody who submits runs or looks at them."""

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from dataward.cluster.access import Access
from dataward.cluster.exchange import (
    ClusterFacts,
    ExecutorFacts,
    NewRun,
    OutcomesAsked,
    OutcomesKnown,
    PromiseAnswer,
    PromiseAsked,
    RemovedTask,
    RunFactsNow,
    TaskAsked,
    TaskFacts,
)
from dataward.errors import DatawardError
from dataward.live.credentials import Role
from dataward.live.peer_client import BROKEN, PeerClient
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, Member
from dataward.model.states import RunState
from dataward.model.workflow import TaskId

T = TypeVar("T")
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 60.0
PROMISE_SECONDS = 300.0  # questions to one host wait for each other
LOOKS_MAX = 5_000  # tasks asked after at a time


class ClusterError(DatawardError):
    """No host of the cluster can be reached, or one refuses what was asked."""


class ClusterSilentError(ClusterError):
    """No node can be reached, or none can reach the store: that may pass."""


class Visitor:
    """``async with Visitor(access, contacts) as visitor``; it finds a host that is up."""

    def __init__(self, access: Access, contacts: Sequence[str]) -> None:
        self._access = access
        self._contacts = list(contacts)
        self.members: dict[NodeId, Member] = {}
        self.client = PeerClient(self._address_of, access.credentials)

    async def __aenter__(self) -> Self:
        context = self._access.credentials.client_context()
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector)
        await self.client.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.close()
        await self._session.close()

    def _address_of(self, node: NodeId) -> str | None:
        member = self.members.get(node)
        return member.address if member else None

    # --- the cluster -----------------------------------------------------------------------------

    async def cluster(self) -> ClusterFacts:
        """The cluster as it is now. Raises ClusterError."""
        facts = await self._ask("GET", "/cluster", kind=ClusterFacts)
        self.members = {member.node: member for member in facts.members}
        fresh = [member.address for member in facts.members]
        self._contacts = list(dict.fromkeys([*self._contacts[:1], *fresh, *self._contacts]))
        return facts

    async def executors(self) -> list[ExecutorFacts]:
        """The executors at all hosts that answer, each once for every host that it has slots of."""
        found: list[ExecutorFacts] = []
        for node in list(self.members):
            with suppress(ClusterError):  # one that has gone since
                kind = tuple[ExecutorFacts, ...]
                found += await self._ask("GET", "/executors", kind=kind, node=node)
        return found

    async def waits_for_room(self, run: str) -> list[str]:
        """Sentences about tasks of a run that wait for room, from all hosts that answer."""
        found: list[str] = []
        for node in list(self.members):
            with suppress(ClusterError):  # one that has gone since
                found.append(await self._ask("GET", f"/runs/{run}/room", kind=str, node=node))
        return [sentence for sentence in found if sentence]

    async def drain(self, node: NodeId) -> None:
        await self._ask("POST", "/drain", kind=bytes, node=node)

    async def outcomes(self, keys: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for first in range(0, len(keys), LOOKS_MAX):
            asked = OutcomesAsked(tuple(keys[first : first + LOOKS_MAX]))
            known = await self._ask("POST", "/outcomes", asked, kind=OutcomesKnown)
            found += known.outcomes
        return found

    # --- runs ------------------------------------------------------------------------------------

    async def add_run(self, run: NewRun) -> ClusterRun:
        return await self._ask("POST", "/runs", run, kind=ClusterRun)

    async def promise(self, asked: PromiseAsked) -> PromiseAnswer:
        """Promises for a workflow, held for a minute, or by when it could be promised."""
        return await self._ask(
            "POST", "/promises", asked, kind=PromiseAnswer, answer_seconds=PROMISE_SECONDS
        )

    async def run(self, name: str, wait_seconds: float = 0.0) -> RunFactsNow:
        path = f"/runs/{name}" + (f"?wait={wait_seconds:g}" if wait_seconds else "")
        return await self._ask("GET", path, kind=RunFactsNow)

    async def cancel(self, name: str) -> ClusterRun:
        return await self._ask("POST", f"/runs/{name}/cancel", kind=ClusterRun)

    async def remove(self, name: str, tasks: Sequence[TaskId]) -> tuple[RemovedTask, ...]:
        """Remove tasks; a keeper of the run that is up does it."""
        facts = await self.run(name)
        if facts.run.state is not RunState.RUNNING:
            raise ClusterError(f"{name} is {facts.run.state.value} already; no task was removed")
        await self.cluster()
        problem: ClusterError | None = None
        for keeper in facts.run.keepers:
            if keeper in self.members:
                try:
                    return await self._ask(
                        "POST",
                        f"/runs/{name}/remove",
                        TaskAsked(tuple(tasks)),
                        kind=tuple[RemovedTask, ...],
                        node=keeper,
                    )
                except ClusterError as error:
                    problem = error
        raise problem or ClusterError(f"no host that keeps {name} is up")

    async def clean(self, name: str) -> None:
        await self._ask("POST", f"/runs/{name}/clean", kind=bytes)
        await self.cluster()
        for node in self.members:
            await self._ask("POST", f"/runs/{name}/clean-here", kind=bytes, node=node)

    async def look(self, name: str, tasks: Sequence[TaskId]) -> list[TaskFacts]:
        found: list[TaskFacts] = []
        for first in range(0, len(tasks), LOOKS_MAX):
            asked = TaskAsked(tuple(tasks[first : first + LOOKS_MAX]))
            found += await self._ask(
                "POST", f"/runs/{name}/look", asked, kind=tuple[TaskFacts, ...]
            )
        return found

    async def events(self, name: str, node: NodeId, first: int) -> bytes:
        """Lines of a node's events from a byte on; b"" if there are no more now."""
        path = f"/runs/{name}/events?from={first}"
        return await self._ask("GET", path, kind=bytes, node=node)

    async def logs(self, name: str, node: NodeId, task: TaskId) -> dict[str, bytes]:
        from urllib.parse import quote

        path = f"/runs/{name}/logs?task={quote(task, safe='')}"
        return await self._ask("GET", path, kind=dict[str, bytes], node=node)

    # --- asking ----------------------------------------------------------------------------------

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: type[T],
        node: NodeId | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> T:
        """The answer of this node, or of any that answers. Raises ClusterError."""
        if node is not None:
            address = self._address_of(node)
            if address is None:
                raise ClusterError(f"no node that is up is called {node}")
            addresses = [address]
        else:
            addresses = list(self._contacts)
        if not addresses:
            raise ClusterError(
                "no address of a node is known; start one, or give --contact HOST:PORT"
            )
        problems: list[str] = []
        waiting = ""  # why a node that answers cannot do what is asked
        for address in addresses:
            try:
                status, content = await self._exchange(method, address, path, body, answer_seconds)
            except aiohttp.ClientConnectorCertificateError:
                problems.append(f"{address}: it is not a node of {self._access.cluster!r}")
                continue
            except BROKEN as error:
                problems.append(f"{address}: {str(error) or type(error).__name__}")
                continue
            if status in (502, 503):
                waiting = content.decode(errors="replace")[:200]
                continue
            if node is None and addresses[0] != address:
                self._contacts = list(dict.fromkeys([address, *self._contacts]))
            if status >= 400:
                raise ClusterError(content.decode(errors="replace")[:300])
            return _read(content, kind)
        if waiting:
            raise ClusterSilentError(f"no node can answer now: {waiting}")
        raise ClusterSilentError(f"no node answers ({'; '.join(problems[:3])})")

    async def _exchange(
        self, method: str, address: str, path: str, body: Any, answer_seconds: float
    ) -> tuple[int, bytes]:
        seconds = aiohttp.ClientTimeout(total=answer_seconds, connect=CONNECT_SECONDS)
        data = msgspec.msgpack.encode(body) if body is not None else None
        async with self._session.request(
            method,
            f"https://{address}{path}",
            data=data,
            timeout=seconds,
            server_hostname=Role.NODE.value,
        ) as response:
            return response.status, await response.read()


def _read(content: bytes, kind: type[T]) -> T:
    if kind is bytes:
        return content  # type: ignore[return-value]
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        problem = f"a node answered what this version cannot read ({error})"
        raise ClusterError(problem) from error
