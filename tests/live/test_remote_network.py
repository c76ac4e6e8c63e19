"""Messages and files between machines when something goes wrong on the way."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

import pytest

from conformance.both_worlds import a_spec, a_world_of, as_input
from conformance.remote_world import HOST, RUN, RemoteWorld
from dataward.live import remote_network
from dataward.live.arriving import Arriving
from dataward.live.peer_client import ClientSettings, PeerClient
from dataward.model.answers import Begun
from dataward.model.messages import Stop, WorkQueued
from dataward.model.operations import Copy, InputFile
from dataward.model.seeds import seeded
from dataward.node.depot import Depot, Staged
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.stores.memory import MemoryStore
from dataward.world import DiskFull, FiberCancelled, TransferFailed, World

LARGE = os.urandom(1 << 20) * 8


@pytest.fixture
def world(request) -> RemoteWorld:
    return a_world_of(RemoteWorld, request)


def stored(world: RemoteWorld, content: bytes) -> InputFile:
    spec = world.write("n0", "t", a=content)
    (output,) = world.run(world.disks["n0"].store_outputs(spec))
    return as_input(output, "t")


def is_whole(world: RemoteWorld, content: bytes) -> bool:
    place = world.disks["n1"].where("a")
    return place is not None and Path(place.path).read_bytes() == content


def nothing_came(world: RemoteWorld) -> bool:
    return (
        world.disks["n1"].files() == []
        and world.count_of_stray_files("n1") == 0
        and world.events == []
    )


class Cutter:
    """Stands before a node, and cuts its first connections after so many bytes of an answer."""

    def __init__(self, address: str, after_bytes: int, cuts: int) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._after_bytes = after_bytes
        self._cuts = cuts
        self.connections = 0
        self.passed_bytes = 0
        self.is_under_way = asyncio.Event()  # set when 1 MiB has passed

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._pass_on, HOST, 0)
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _pass_on(self, reader, writer) -> None:
        self.connections += 1
        limit = self._after_bytes if self.connections <= self._cuts else None
        there, back = await asyncio.open_connection(self._host, self._port)
        ways = [self._copy(reader, back), self._copy(there, writer, limit)]
        await asyncio.wait(
            [asyncio.ensure_future(way) for way in ways], return_when="FIRST_COMPLETED"
        )
        for end in (writer, back):
            end.transport.abort()

    async def _copy(self, reader, writer, limit: int | None = None) -> None:
        came = 0
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                came += len(chunk)
                if limit is not None and came > limit:
                    return
                writer.write(chunk)
                await writer.drain()
                self.passed_bytes += len(chunk)
                if self.passed_bytes >= 1 << 20:
                    self.is_under_way.set()


@pytest.fixture
def cutter_before_n0(world, request) -> Callable[[int, int], Cutter]:
    """Puts a `Cutter` before n0, that cuts after so many bytes, so many times."""

    def put(after_bytes: int, cuts: int) -> Cutter:
        cutter = Cutter(world.addresses["n0"], after_bytes, cuts)
        world.addresses["n0"] = world.run(cutter.start())
        request.addfinalizer(lambda: world.run(cutter.close()))
        return cutter

    return put


def test_a_transfer_that_breaks_off_goes_on_where_it_was(world, cutter_before_n0):
    file = stored(world, LARGE)
    cutter = cutter_before_n0(5 << 20, 1)

    world.run(world.networks["n1"].fetch(file, "n0"))

    assert is_whole(world, LARGE)
    assert cutter.connections == 2
    assert cutter.passed_bytes < 1.2 * len(LARGE)
    assert world.count_of_stray_files("n1") == 0


def test_a_transfer_that_always_breaks_off_fails_and_leaves_nothing(world, cutter_before_n0):
    file = stored(world, LARGE)
    cutter_before_n0(1 << 20, 1000)

    with pytest.raises(TransferFailed):
        world.run(world.networks["n1"].fetch(file, "n0"))

    assert nothing_came(world)


def test_bytes_that_were_changed_on_the_sources_disk_do_not_come(world):
    file = stored(world, b"right")
    path = world.disks["n0"].where("a").path
    os.chmod(path, 0o644)
    with open(path, "wb") as spoiled:
        spoiled.write(b"wrong")

    with pytest.raises(TransferFailed, match="other bytes"):
        world.run(world.networks["n1"].fetch(file, "n0"))

    assert nothing_came(world)


def test_a_file_without_a_digest_cannot_be_asked_for(world):
    stored(world, b"one")

    with pytest.raises(TransferFailed, match="no digest"):
        world.run(world.networks["n1"].fetch(InputFile("a", 3, "t"), "n0"))

    assert nothing_came(world)


def test_a_fetch_cancelled_on_its_way_leaves_nothing_behind(world, cutter_before_n0):
    file = stored(world, LARGE)
    cutter = cutter_before_n0(1 << 40, 0)

    async def cancel() -> None:
        fiber = world.kernel.spawn(world.networks["n1"].fetch(file, "n0"))
        await cutter.is_under_way.wait()
        fiber.cancel()
        with pytest.raises(FiberCancelled):
            await fiber.join()

    world.run(cancel())

    assert nothing_came(world)
    world.run(world.networks["n1"].fetch(file, "n0"))
    assert is_whole(world, LARGE)


def test_from_a_node_that_is_down_or_unknown_nothing_comes(world):
    file = stored(world, b"one")
    del world.addresses["n0"]
    with pytest.raises(TransferFailed, match="not known"):
        world.run(world.networks["n1"].fetch(file, "n0"))
    world.addresses["n0"] = f"{HOST}:1"  # nobody listens there

    with pytest.raises(TransferFailed):
        world.run(world.networks["n1"].fetch(file, "n0"))

    assert nothing_came(world)


def test_messages_to_a_node_that_is_down_are_dropped_and_later_ones_arrive(world):
    there = world.addresses.pop("n0")
    world.networks["n1"].send("n0", Stop("lost", 1))
    world.run(world.arrival())
    world.addresses["n0"] = there

    world.networks["n1"].send("n0", WorkQueued())
    world.run(world.arrival())

    assert world.networks["n0"].inbox.take_all() == [WorkQueued()]


def test_many_messages_at_once_go_in_few_requests_and_in_order(world):
    sent = [Stop("t", number) for number in range(2500)]
    batches = []
    leave = world.client("n1").leave_mail

    async def leave_and_count(to, run, mail, messages):
        batches.append(to)
        return await leave(to, run, mail, messages)

    world.client("n1").leave_mail = leave_and_count
    for message in sent:
        world.networks["n1"].send("n0", message)
    world.run(world.arrival())

    assert world.networks["n0"].inbox.take_all() == sent
    assert len(batches) == 3
    client = world.client("n1")
    assert (client.messages_sent, client.letters_sent) == (2500, 3)


def test_of_too_many_messages_that_wait_the_oldest_are_dropped(world, monkeypatch):
    monkeypatch.setattr(remote_network, "LINE_MAX", 10)
    for number in range(25):
        world.networks["n1"].send("n0", Stop("t", number))

    world.run(world.arrival())

    assert world.networks["n0"].inbox.take_all() == [Stop("t", number) for number in range(15, 25)]


# --- small files together ------------------------------------------------------------------------


def many(world: RemoteWorld, count: int) -> list[InputFile]:
    """Small files that n0 has."""
    contents = {f"f{number}": b"%d" % number for number in range(count)}
    outputs = world.run(world.disks["n0"].store_outputs(world.write("n0", "t", **contents)))
    return [as_input(output, "t") for output in outputs]


def counting_batches(world: RemoteWorld) -> list[int]:
    """How many files are asked for in each request, from now on."""
    sizes = []
    fetch_batch = world.client("n1").fetch_batch

    def fetch_and_count(source, digests):
        sizes.append(len(digests))
        return fetch_batch(source, digests)

    world.client("n1").fetch_batch = fetch_and_count
    return sizes


def fetch_all(world: RemoteWorld, files: list[InputFile]) -> list[BaseException | None]:
    """What each fetch ended with."""

    async def fetch() -> list[BaseException | None]:
        network = world.networks["n1"]
        fetches = [network.fetch(file, "n0") for file in files]
        return await asyncio.gather(*fetches, return_exceptions=True)

    return world.run(fetch())


def are_whole(world: RemoteWorld, files: list[InputFile]) -> bool:
    known = {file.id: file for file in world.disks["n1"].files()}
    return known.keys() == {f.id for f in files} and all(
        world.is_readable("n1", known[file.id]) for file in files
    )


def test_small_files_asked_for_at_once_come_in_few_requests(world):
    files = many(world, 2500)
    batches = counting_batches(world)

    assert fetch_all(world, files) == [None] * 2500

    assert are_whole(world, files)
    assert batches == [1000, 1000, 500]
    assert world.count_of_stray_files("n1") == 0
    assert {(event.file, event.size_bytes) for event in world.events} == {
        (file.id, file.size_bytes) for file in files
    }


def test_of_a_batch_only_the_file_that_is_not_there_fails(world):
    files = many(world, 20)
    world.lose_unnoticed("n0", "f7")

    ends = fetch_all(world, files)

    assert [type(end) for end in ends].count(TransferFailed) == 1
    assert are_whole(world, files[:7] + files[8:])
    assert world.count_of_stray_files("n1") == 0


def test_of_a_batch_only_the_file_with_other_bytes_fails(world):
    files = many(world, 20)
    path = world.disks["n0"].where("f7").path
    os.chmod(path, 0o644)
    Path(path).write_bytes(b"spoiled")

    ends = fetch_all(world, files)

    assert "other bytes" in str(ends[7])
    assert are_whole(world, files[:7] + files[8:])
    assert world.count_of_stray_files("n1") == 0


def test_a_file_that_is_larger_than_it_was_said_to_be_comes_alone(world):
    large = stored(world, LARGE)

    assert fetch_all(world, [InputFile("a", 10, "t", large.digest)]) == [None]

    assert is_whole(world, LARGE)


def test_a_batch_that_breaks_off_goes_on_with_the_rest(world, cutter_before_n0):
    contents = {f"f{number}": os.urandom(100_000) for number in range(40)}
    outputs = world.run(world.disks["n0"].store_outputs(world.write("n0", "t", **contents)))
    files = [as_input(output, "t") for output in outputs]
    cutter = cutter_before_n0(2 << 20, 1)

    assert fetch_all(world, files) == [None] * 40

    assert are_whole(world, files)
    assert cutter.connections == 2
    assert world.count_of_stray_files("n1") == 0


def test_a_fetch_cancelled_amid_a_batch_leaves_nothing_behind_and_the_others_come(world):
    files = many(world, 500)

    async def cancel_some() -> None:
        network = world.networks["n1"]
        fibers = [world.kernel.spawn(network.fetch(file, "n0")) for file in files]
        await fibers[0].join()
        for fiber in fibers[1::2]:
            fiber.cancel()
        for fiber in fibers:
            with suppress(FiberCancelled):
                await fiber.join()

    world.run(cancel_some())

    known = {file.id for file in world.disks["n1"].files()}
    assert known >= {file.id for file in files[::2]}
    assert world.count_of_stray_files("n1") == 0


def test_whoever_waits_for_a_batch_when_the_network_closes_is_told(world):
    files = many(world, 3)

    async def close_amid() -> list[BaseException | None]:
        network = world.networks["n1"]
        fetches = [asyncio.ensure_future(network.fetch(file, "n0")) for file in files]
        await asyncio.sleep(0)
        await network.close()
        return await asyncio.gather(*fetches, return_exceptions=True)

    assert [type(end) for end in world.run(close_amid())] == [TransferFailed] * 3
    assert nothing_came(world)


def test_a_task_with_thousands_of_small_inputs_waits_for_few_requests(world):
    """As a node's depot asks for them, which has a few transfers at a time otherwise."""
    files = many(world, 3000)
    batches = counting_batches(world)
    spec = a_spec("reader", inputs=files)
    copies = tuple(Copy(file.id, "n0", file.size_bytes, file.digest) for file in files)

    async def bring() -> Staged:
        node = World(
            node="n1",
            nodes=("n0", "n1"),
            incarnation=1,
            cores=1,
            memory_bytes=inf,
            kernel=world.kernel,
            random=seeded(1, "n1"),
            store=MemoryStore(world.kernel.now),
            network=world.networks["n1"],
            disk=world.disks["n1"],
            runner=None,
            emit=world.events.append,
        )
        settings = NodeSettings()
        state = NodeState(node, settings)
        store = StoreClient(node.store, node.kernel, node.random, settings)
        depot = Depot(node, settings, store, state.outbox)
        await depot.recover()
        return await depot.bring(Begun(spec, 1, copies, {}))

    assert world.run(bring()) == Staged(0, sum(file.size_bytes for file in files))
    assert are_whole(world, files)
    assert len(batches) <= 4


# --- doubts --------------------------------------------------------------------------------------


def test_a_node_that_cannot_be_reached_is_doubted_until_it_answers(world):
    file = stored(world, b"one")
    there, world.addresses["n0"] = world.addresses["n0"], f"{HOST}:1"  # nobody listens there
    network = world.networks["n1"]
    assert not network.doubts("n0")

    with pytest.raises(TransferFailed):
        world.run(network.fetch(file, "n0"))
    assert network.doubts("n0")
    assert not network.doubts("n2")

    world.addresses["n0"] = there
    world.run(network.fetch(file, "n0"))
    assert not network.doubts("n0")


def test_a_node_that_takes_no_messages_is_doubted(world):
    world.addresses["n0"] = f"{HOST}:1"

    world.networks["n1"].send("n0", WorkQueued())
    world.run(world.arrival())

    assert world.networks["n1"].doubts("n0")


def test_a_node_that_does_not_have_a_file_is_not_doubted(world):
    with pytest.raises(TransferFailed):
        world.run(world.networks["n1"].fetch(InputFile("a", 3, "t", "0" * 64), "n0"))
    with pytest.raises(TransferFailed):
        world.run(world.networks["n1"].fetch(InputFile("a", 1 << 30, "t", "0" * 64), "n0"))

    assert not world.networks["n1"].doubts("n0")


def test_a_doubt_does_not_last(world):
    async def doubt() -> bool:
        client = PeerClient({"n0": f"{HOST}:1"}.get, None, ClientSettings(doubt_seconds=0.0))
        await client.open()
        assert not await client.leave_mail("n0", RUN, b"")
        await client.close()
        return client.doubts("n0")

    assert not world.run(doubt())


# --- no room -------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"one", LARGE], ids=["small", "large"])
def test_a_file_that_cannot_be_written_here_says_so(world, content):
    file = stored(world, content)
    world.disks["n1"].path_for_incoming = lambda: f"{world.directory}/nowhere/a"

    with pytest.raises(DiskFull, match="cannot be written here"):
        world.run(world.networks["n1"].fetch(file, "n0"))

    assert nothing_came(world)


def test_a_file_for_which_there_is_no_room_says_so_midway():
    with open("/dev/full", "wb", buffering=0) as full:
        arriving = Arriving("0" * 64, full)

        with pytest.raises(DiskFull):
            arriving.add(b"some bytes")
