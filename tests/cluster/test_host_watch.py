"""A host whose process has ended is noticed by its closed connections, not by its lease."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace

from cluster.laptops import laptop_cluster
from dataward import write_workflow
from dataward.cluster import host_watch
from dataward.cluster.authority import Authority
from dataward.cluster.host_watch import NODE_HEADER, HostWatch, watched_by
from dataward.live.credentials import Role
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.states import RunState

SHORT, LONG = 0.2, 200.0  # seconds for answers that do not come, and for those that do


def members(*names: str) -> list[Member]:
    return [Member(NodeId(name), f"{name}:1", 1, 1, 1) for name in names]


def test_each_host_watches_the_next_two() -> None:
    known = members("a", "b", "c", "d")

    watched = {m.node: [w.node for w in watched_by(m.node, known)] for m in known}

    assert watched == {"a": ["b", "c"], "b": ["c", "d"], "c": ["d", "a"], "d": ["a", "b"]}


def test_a_host_that_is_alone_watches_nobody() -> None:
    assert watched_by(NodeId("a"), members("a")) == []


# --- one watch -----------------------------------------------------------------------------------


class Other:
    """Another host, of which only the connections matter."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.is_silent = False
        self.node = ""  # that it says it is
        self._connections: list[asyncio.StreamWriter] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        if not self.is_silent:
            said = f"{NODE_HEADER}: {self.node}\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n" + said.encode())

    async def start(self) -> Member:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return Member(NodeId("b"), f"127.0.0.1:{port}", 1, 1, 1)

    def end(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.close()


def watch_over(
    scene: Callable[[Other, Member, HostWatch], Awaitable[None]],
    clock: Callable[[], float] = monotonic,
    answer_seconds: float = LONG,
) -> list[Member]:
    """The members that a watch has found to be gone in this scene."""
    gone: list[Member] = []

    async def play() -> None:
        async def on_gone(member: Member) -> None:
            gone.append(member)

        other, watch = Other(), HostWatch(NodeId("a"), None, on_gone, answer_seconds, clock)
        member = await other.start()
        watch.follow([member])
        try:
            async with asyncio.timeout(300):
                await other.asked.wait()
                other.asked.clear()
                await scene(other, member, watch)
                while watch.is_asking or (watch.is_watching(member) and not gone):
                    await asyncio.sleep(0)
        finally:
            await watch.close()
            other.end()

    asyncio.run(play())
    return gone


def test_a_host_that_ends_is_gone() -> None:
    async def scene(other: Other, member: Member, watch: HostWatch) -> None:
        other.end()

    assert [member.node for member in watch_over(scene)] == ["b"]


def test_a_host_that_resets_a_connection_before_it_listens_no_more_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_watch, "RETRY_SECONDS", LONG)
    gone = asyncio.Event()

    async def on_gone(member: Member) -> None:
        gone.set()

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # the handshake has begun
        server.close()
        ends_at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, ends_at_once
        )
        writer.transport.abort()

    async def play() -> None:
        nonlocal server
        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        own = Authority.found("lab").issue("a", [Role.NODE])
        watch = HostWatch(NodeId("a"), own, on_gone)
        watch.follow([Member(NodeId("b"), f"127.0.0.1:{port}", 1, 1, 1)])
        async with asyncio.timeout(LONG / 2):
            await gone.wait()
        await watch.close()

    server: asyncio.Server
    asyncio.run(play())


def test_a_host_whose_lease_ran_out_but_that_answers_is_not_gone() -> None:
    async def scene(other: Other, member: Member, watch: HostWatch) -> None:
        watch.follow([])
        await other.asked.wait()

    assert watch_over(scene) == []


def test_a_host_whose_lease_ran_out_and_that_is_silent_is_gone() -> None:
    async def scene(other: Other, member: Member, watch: HostWatch) -> None:
        other.is_silent = True
        watch.follow([])

    # If this process stalls, it asks again, and the answer is as long in coming.
    assert [member.node for member in watch_over(scene, answer_seconds=SHORT)] == ["b"]


def test_a_host_that_is_a_member_again_before_it_has_answered_is_not_gone() -> None:
    async def scene(other: Other, member: Member, watch: HostWatch) -> None:
        other.is_silent = True
        watch.follow([])
        await other.asked.wait()
        watch.follow([replace(member, draining=True)])

    assert watch_over(scene, answer_seconds=SHORT) == []


def test_a_host_that_was_stopped_itself_asks_again() -> None:
    times = iter([0.0, 10 * LONG])  # of the first question, which nobody answers

    async def scene(other: Other, member: Member, watch: HostWatch) -> None:
        other.is_silent = True
        watch.follow([])
        await other.asked.wait()
        other.is_silent = False
        watch._answer_seconds = LONG  # from the second question on

    assert watch_over(scene, lambda: next(times, 10 * LONG), SHORT) == []


# --- who has a name ------------------------------------------------------------------------------


def is_answered(arrange: Callable[[Other], None], seconds: float = LONG) -> bool:
    """Whether a host says that it is b, where b is said to be."""

    async def play() -> bool:
        async def on_gone(member: Member) -> None:
            pass

        other, watch = Other(), HostWatch(NodeId("b"), None, on_gone, seconds)
        member = await other.start()
        arrange(other)
        try:
            return await watch.answers(member)
        finally:
            await watch.close()
            other.end()

    return asyncio.run(play())


def test_a_host_answers_to_its_own_name_only() -> None:
    assert is_answered(lambda other: setattr(other, "node", "b"))
    assert not is_answered(lambda other: setattr(other, "node", "c"))


def test_a_host_that_has_ended_or_is_silent_does_not_answer() -> None:
    assert not is_answered(lambda other: other.end())
    assert not is_answered(lambda other: setattr(other, "is_silent", True), SHORT)


# --- a cluster -----------------------------------------------------------------------------------


def test_the_tasks_of_a_killed_node_are_taken_over_long_before_its_lease_ends(
    tmp_path: Path,
) -> None:
    wf = WorkflowBuilder("many")
    for number in range(40):
        wf.command(f"sleep 0.1; echo {number} > {{outputs}}", outputs=[f"f{number}"])
    write_workflow(wf.build(), tmp_path / "w.json")
    with laptop_cluster(tmp_path / "lab", nodes=2, lease="1h") as cluster:
        run = cluster.submit(tmp_path / "w.json", fresh=True, copies=2).run.name
        cluster.kill("n2")

        ended = cluster.wait(run)

    assert ended.run.state is RunState.COMPLETE
    assert ended.counts == {"complete": 40}
