"""Calls to a store that are joined into one."""

import asyncio
from collections.abc import Sequence

import pytest

from dataward.live.joined_calls import UNDER_WAY_MAX, JoinedCalls
from dataward.model.answers import Answer
from dataward.model.operations import Operation, Probe
from dataward.stores.memory import MemoryStore
from dataward.world import StoreUnavailable


class Watched:
    """A store in memory whose calls wait until they are let through, if ``holds``."""

    def __init__(self, *, holds: bool = False) -> None:
        self._store = MemoryStore(lambda: 0.0, shards=3)
        self.calls: list[int] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        if not holds:
            self.gate.set()

    shard_count = 3

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        self.calls.append(len(operations))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._store.call(operations)


def probes(*nodes: str) -> list[Operation]:
    return [Probe(node) for node in nodes]


def test_calls_of_one_turn_go_together_and_each_gets_its_own_answers() -> None:
    async def work() -> None:
        store = Watched()
        joined = JoinedCalls(store)

        first, second = await asyncio.gather(
            joined.call(probes("a", "b")), joined.call(probes("c"))
        )

        assert store.calls == [3]
        assert [answer.node for answer in first] == ["a", "b"]
        assert [answer.node for answer in second] == ["c"]
        assert joined.shard_count == 3

    asyncio.run(work())


def test_while_some_are_under_way_the_next_wait_for_company() -> None:
    async def work() -> None:
        store = Watched(holds=True)
        joined = JoinedCalls(store)
        calls = []
        for node in "abcdef":
            calls.append(asyncio.ensure_future(joined.call(probes(node))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(store.calls) == UNDER_WAY_MAX

        store.gate.set()
        answers = await asyncio.gather(*calls)

        assert store.calls == [1] * UNDER_WAY_MAX + [6 - UNDER_WAY_MAX]
        assert [answer.node for (answer,) in answers] == list("abcdef")

    asyncio.run(work())


def test_who_was_joined_shares_the_failure() -> None:
    async def work() -> None:
        store = Watched()
        store.error = StoreUnavailable("gone")
        joined = JoinedCalls(store)

        results = await asyncio.gather(
            joined.call(probes("a")), joined.call(probes("b")), return_exceptions=True
        )

        assert all(isinstance(result, StoreUnavailable) for result in results)
        store.error = None
        assert len(await joined.call(probes("a"))) == 1

    asyncio.run(work())


def test_one_who_no_longer_waits_takes_nobody_along() -> None:
    async def work() -> None:
        store = Watched(holds=True)
        joined = JoinedCalls(store)
        one = asyncio.ensure_future(joined.call(probes("a")))
        other = asyncio.ensure_future(joined.call(probes("b")))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.sleep(0)
        store.gate.set()

        assert [answer.node for answer in await other] == ["b"]
        with pytest.raises(asyncio.CancelledError):
            await one

    asyncio.run(work())


def test_a_node_that_has_work_makes_calls_at_a_pace() -> None:
    async def work() -> None:
        store = Watched()
        joined = JoinedCalls(store, has_work=lambda: True)
        await joined.call(probes("a"))  # nothing was called a moment ago
        calls = []
        for node in "bcd":
            calls.append(asyncio.ensure_future(joined.call(probes(node))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        answers = await asyncio.gather(*calls)

        assert store.calls == [1, 3]
        assert [answer.node for (answer,) in answers] == list("bcd")

    asyncio.run(work())
