"""What `Network` promises when nothing interferes, held against all three networks.

Losing, delaying and doubling messages is allowed; how nodes bear it is tested by the simulator.
"""

from collections.abc import Callable

import pytest

from conformance.both_worlds import (
    GIVEN,
    NODES,
    LiveWorld,
    SimWorld,
    a_world,
    a_world_of,
    as_input,
)
from conformance.remote_world import RemoteWorld
from dataward.model.events import FileMoved
from dataward.model.ids import ORIGIN
from dataward.model.messages import Confirm, Stop, WorkQueued
from dataward.model.operations import InputFile, OutputFile
from dataward.world import FiberCancelled, StoredFile, TransferFailed

World = LiveWorld | SimWorld
RED = (AssertionError, pytest.fail.Exception, TransferFailed)  # what a test here ends with
WHILE_UNDER_WAY_SECONDS = 0.5
LARGE_BYTES = 10**9  # some 8 simulated seconds


KINDS = {"live": LiveWorld, "remote": RemoteWorld, "simulated": SimWorld}


@pytest.fixture(params=KINDS)
def world(request) -> World:
    return a_world_of(KINDS[request.param], request)


@pytest.fixture
def sim(request) -> SimWorld:
    return a_world("simulated", request)


def store(world: World, node: str, task: str, **contents: bytes) -> OutputFile:
    stored = world.run(world.disks[node].store_outputs(world.write(node, task, **contents)))
    return stored[0]


def fetch(world: World, to: str, file: InputFile, source: str) -> None:
    world.run(world.networks[to].fetch(file, source))


def files(world: World, node: str) -> dict[str, StoredFile]:
    return {file.id: file for file in world.disks[node].files()}


def has_whole(world: World, node: str, file: str) -> bool:
    known = files(world, node)
    return file in known and world.is_readable(node, known[file])


def received(world: World, node: str) -> list:
    """All that has come to a node, once whatever was sent has had the time to arrive."""
    world.run(world.arrival())
    return world.networks[node].inbox.take_all()


def the_only_event(world: World) -> FileMoved:
    assert [type(event) for event in world.events] == [FileMoved]
    return world.events[0]


# --- messages ------------------------------------------------------------------------------------


def test_messages_arrive_where_they_were_sent_and_nowhere_else(world):
    world.networks["n0"].send("n1", Stop("t", 1))
    world.networks["n2"].send("n0", WorkQueued())

    assert received(world, "n1") == [Stop("t", 1)]
    assert received(world, "n0") == [WorkQueued()]
    assert received(world, "n2") == []


def test_messages_from_one_node_arrive_all_in_order_and_once(world):
    sent = [Stop("t", i) for i in range(10)] + [Confirm("t", "n1.1.1")]

    for message in sent:
        world.networks["n0"].send("n1", message)

    assert received(world, "n1") == sent


def test_a_node_can_write_to_itself(world):
    world.networks["n0"].send("n0", WorkQueued())

    assert received(world, "n0") == [WorkQueued()]


# --- files ---------------------------------------------------------------------------------------


def test_a_file_comes_whole_with_its_size_and_digest_and_stays_where_it_was(world):
    stored = store(world, "n0", "t", a=b"one")

    fetch(world, "n1", as_input(stored, "t"), "n0")

    assert files(world, "n1") == {"a": StoredFile("a", 3, "t", False, stored.digest)}
    assert has_whole(world, "n1", "a")
    assert has_whole(world, "n0", "a")
    assert files(world, "n2") == {}


def test_the_move_of_a_file_is_told_with_source_target_and_size(world):
    stored = store(world, "n0", "t", a=b"one")

    fetch(world, "n1", as_input(stored, "t"), "n0")

    moved = the_only_event(world)
    told = (moved.file, moved.source, moved.target, moved.size_bytes)
    assert told == ("a", "n0", "n1", 3)
    assert moved.seconds >= 0
    assert moved.at <= world.kernel.now()


def test_an_input_of_the_workflow_comes_from_the_origin(world):
    fetch(world, "n1", world.given, ORIGIN)

    given = StoredFile("given", len(GIVEN), "given", False, world.given.digest)
    assert files(world, "n1") == {"given": given}
    assert has_whole(world, "n1", "given")
    moved = the_only_event(world)
    assert (moved.source, moved.target, moved.size_bytes) == (ORIGIN, "n1", len(GIVEN))


def test_a_copy_is_as_good_a_source_as_the_original(world):
    stored = store(world, "n0", "t", a=b"one")
    fetch(world, "n1", as_input(stored, "t"), "n0")
    world.disks["n0"].remove("a")

    fetch(world, "n2", as_input(stored, "t"), "n1")

    assert has_whole(world, "n2", "a")


@pytest.mark.parametrize("name", ["live", "simulated"])
def test_a_copy_is_what_the_source_has_whatever_the_asker_thought_it_was(name, request):
    """Whoever asks before the commit was heard of knows a declared size and no digest.

    Between machines a file is asked for by its digest alone: there, such a fetch fails.
    """
    world = a_world(name, request)
    stored = store(world, "n0", "t", a=b"one")

    fetch(world, "n1", InputFile("a", 1000, "t"), "n0")

    assert files(world, "n1") == {"a": StoredFile("a", 3, "t", False, stored.digest)}
    assert [event.size_bytes for event in world.events] == [3]
    fetch(world, "n2", as_input(stored, "t"), "n1")
    assert has_whole(world, "n2", "a")


def test_a_file_fetched_twice_is_there_until_it_is_removed(world):
    stored = store(world, "n0", "t", a=b"one")
    fetch(world, "n1", as_input(stored, "t"), "n0")

    fetch(world, "n1", as_input(stored, "t"), "n0")

    assert has_whole(world, "n1", "a")
    assert world.count_of_stray_files("n1") == 0
    world.disks["n1"].remove("a")
    assert files(world, "n1") == {}
    assert world.count_of_stray_files("n1") == 0


def test_a_file_removed_and_fetched_again_at_once_is_there(world):
    """The removal of the first copy may be still to come: it must not take the second away."""
    stored = store(world, "n0", "t", a=b"one")
    fetch(world, "n1", as_input(stored, "t"), "n0")

    world.disks["n1"].remove("a")
    fetch(world, "n1", as_input(stored, "t"), "n0")

    assert has_whole(world, "n1", "a")
    assert world.count_of_stray_files("n1") == 0


def test_of_two_files_that_are_alike_both_come_and_one_stays_when_the_other_is_removed(world):
    first = store(world, "n0", "t", a=b"same")
    second = store(world, "n0", "u", b=b"same")
    fetch(world, "n1", as_input(first, "t"), "n0")
    fetch(world, "n1", as_input(second, "u"), "n0")

    world.disks["n1"].remove("a")

    assert not has_whole(world, "n1", "a")
    assert has_whole(world, "n1", "b")
    assert has_whole(world, "n0", "a")


def test_a_file_fetched_again_by_a_new_disk_over_the_same_storage_is_there(world):
    first = store(world, "n0", "t", a=b"same")
    second = store(world, "n0", "u", b=b"same")
    fetch(world, "n1", as_input(first, "t"), "n0")
    world.reopen("n1")

    fetch(world, "n1", as_input(second, "u"), "n0")

    assert has_whole(world, "n1", "a")
    assert has_whole(world, "n1", "b")


# --- what cannot be fetched ----------------------------------------------------------------------


def refuses(world: World, file: InputFile, source: str = "n0") -> None:
    with pytest.raises(TransferFailed):
        fetch(world, "n1", file, source)
    assert files(world, "n1") == {}
    assert world.count_of_stray_files("n1") == 0
    assert world.events == []


@pytest.mark.parametrize("source", [NODES[1], ORIGIN])
def test_a_rate_is_expected_of_a_source_only_where_links_are_described(world, source):
    rate = world.networks[NODES[0]].expected_rate(source)

    assert rate == (125e6 if isinstance(world, SimWorld) else None)


def test_what_the_source_never_had_does_not_come(world):
    refuses(world, InputFile("a", 3, "t", "some digest"))


def test_what_the_source_has_removed_does_not_come(world):
    stored = store(world, "n0", "t", a=b"one")
    world.disks["n0"].remove("a")

    refuses(world, as_input(stored, "t"))


def test_what_has_gone_from_the_disk_of_the_source_does_not_come(world):
    stored = store(world, "n0", "t", a=b"one")
    world.lose_unnoticed("n0", "a")

    refuses(world, as_input(stored, "t"))


def test_other_content_than_was_asked_for_does_not_come(world):
    old = store(world, "n0", "t", a=b"old")
    store(world, "n0", "u", a=b"new")

    refuses(world, as_input(old, "t"))


def test_a_fetch_that_fails_leaves_the_copy_that_was_there(world):
    old = store(world, "n0", "t", a=b"old")
    fetch(world, "n1", as_input(old, "t"), "n0")
    store(world, "n0", "u", a=b"new")

    with pytest.raises(TransferFailed):
        fetch(world, "n1", as_input(old, "t"), "n0")

    assert has_whole(world, "n1", "a")
    assert files(world, "n1")["a"].digest == old.digest


def put_down(sim: SimWorld) -> None:
    sim.machines["n0"].crash()
    sim.fabric.cut("n0")


def stop_serving(sim: SimWorld) -> None:
    sim.machines["n0"].serves = False


def cut_off(sim: SimWorld) -> None:
    sim.interference.cuts.append(frozenset({"n0", ORIGIN}))


def drop(sim: SimWorld) -> None:
    sim.disks["n0"].remove("a")


def make_anew(sim: SimWorld) -> None:
    sim.machines["n0"].stored.put("a", LARGE_BYTES, "u", written=True, digest="another")


@pytest.mark.parametrize("trouble", [put_down, stop_serving, cut_off])
def test_from_a_source_that_cannot_send_nothing_comes(sim, trouble):
    stored = store(sim, "n0", "t", a=b"one")
    sim.run(sim.disks["n0"].sync())
    trouble(sim)

    refuses(sim, as_input(stored, "t"))


def test_from_an_origin_that_cannot_be_reached_nothing_comes(sim):
    cut_off(sim)

    refuses(sim, sim.given, ORIGIN)


@pytest.mark.parametrize("trouble", [put_down, stop_serving, cut_off, drop, make_anew])
def test_a_source_that_fails_on_the_way_sends_nothing(sim, trouble):
    sim.machines["n0"].stored.put("a", LARGE_BYTES, "t", written=True, digest="right")

    async def fetch_amid_trouble():
        file = InputFile("a", LARGE_BYTES, "t", "right")
        fiber = sim.kernel.spawn(sim.networks["n1"].fetch(file, "n0"))
        sim.kernel.call_at(sim.kernel.now() + WHILE_UNDER_WAY_SECONDS, trouble, sim)
        await fiber.join()

    with pytest.raises(TransferFailed):
        sim.run(fetch_amid_trouble())
    assert files(sim, "n1") == {}
    assert sim.events == []


# --- cancelling ----------------------------------------------------------------------------------


def cancel_after(world: World, seconds: float, file: InputFile) -> None:
    async def fetch_and_cancel():
        fiber = world.kernel.spawn(world.networks["n1"].fetch(file, "n0"))
        if seconds:
            await world.kernel.sleep(seconds)
        fiber.cancel()
        with pytest.raises(FiberCancelled):
            await fiber.join()

    world.run(fetch_and_cancel())


def test_a_fetch_cancelled_before_it_began_leaves_nothing_behind(world):
    stored = store(world, "n0", "t", a=b"one")

    cancel_after(world, 0.0, as_input(stored, "t"))

    assert files(world, "n1") == {}
    assert world.count_of_stray_files("n1") == 0
    assert world.events == []


def test_a_fetch_cancelled_on_the_way_leaves_nothing_behind_not_even_traffic(sim):
    """A live fetch waits for nothing, so that it cannot be cancelled on its way."""
    sim.machines["n0"].stored.put("a", LARGE_BYTES, "t", written=True, digest="right")
    file = InputFile("a", LARGE_BYTES, "t", "right")
    fetch(sim, "n2", file, "n0")
    undisturbed = sim.events.pop().seconds

    cancel_after(sim, WHILE_UNDER_WAY_SECONDS, file)

    assert files(sim, "n1") == {}
    assert sim.events == []
    fetch(sim, "n1", file, "n0")
    assert sim.events.pop().seconds == pytest.approx(undisturbed)


# --- the suite itself ----------------------------------------------------------------------------


class BreakOne:
    """Networks with one promise broken, of either kind."""

    @staticmethod
    def drops_every_third_message(network):
        def send(self, to, message):
            self.sent = getattr(self, "sent", 0) + 1
            if self.sent % 3:
                network.send(self, to, message)

        return {"send": send}

    @staticmethod
    def doubles_messages(network):
        def send(self, to, message):
            network.send(self, to, message)
            network.send(self, to, message)

        return {"send": send}

    @staticmethod
    def sends_to_everybody(network):
        def send(self, to, message):
            for node in NODES:
                network.send(self, node, message)

        return {"send": send}

    @staticmethod
    def sends_the_first_last(network):
        def send(self, to, message):
            self.kept = [*getattr(self, "kept", []), message]
            if isinstance(message, Confirm):
                for one in (*self.kept[1:], self.kept[0]):
                    network.send(self, to, one)

        return {"send": send}

    @staticmethod
    def checks_no_digest(network):
        async def fetch(self, file, source):
            await network.fetch(self, InputFile(file.id, file.size_bytes, file.producer), source)

        return {"fetch": fetch}

    @staticmethod
    def brings_nothing(network):
        async def fetch(self, file, source):
            pass

        return {"fetch": fetch}

    @staticmethod
    def fails_in_silence(network):
        async def fetch(self, file, source):
            try:
                await network.fetch(self, file, source)
            except TransferFailed:
                return

        return {"fetch": fetch}

    @staticmethod
    def does_not_serve_copies(network):
        async def fetch(self, file, source):
            if source == "n1":
                raise TransferFailed("n1 has only a copy")
            await network.fetch(self, file, source)

        return {"fetch": fetch}

    @staticmethod
    def brings_a_file_once(network):
        async def fetch(self, file, source):
            self.brought = getattr(self, "brought", set())
            if file.id not in self.brought:
                self.brought.add(file.id)
                await network.fetch(self, file, source)

        return {"fetch": fetch}


def a_broken_world(name: str, request, breaking: Callable) -> World:
    kept = KINDS[name].network_type
    return a_world_of(KINDS[name], request, network_type=type("Broken", (kept,), breaking(kept)))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("breaking", "check"),
    [
        (
            BreakOne.drops_every_third_message,
            test_messages_from_one_node_arrive_all_in_order_and_once,
        ),
        (BreakOne.doubles_messages, test_messages_from_one_node_arrive_all_in_order_and_once),
        (BreakOne.sends_the_first_last, test_messages_from_one_node_arrive_all_in_order_and_once),
        (BreakOne.sends_to_everybody, test_messages_arrive_where_they_were_sent_and_nowhere_else),
        (
            BreakOne.brings_nothing,
            test_a_file_comes_whole_with_its_size_and_digest_and_stays_where_it_was,
        ),
        (BreakOne.brings_nothing, test_the_move_of_a_file_is_told_with_source_target_and_size),
        (BreakOne.brings_nothing, test_an_input_of_the_workflow_comes_from_the_origin),
        (BreakOne.fails_in_silence, test_what_the_source_never_had_does_not_come),
        (BreakOne.fails_in_silence, test_what_has_gone_from_the_disk_of_the_source_does_not_come),
        (BreakOne.does_not_serve_copies, test_a_copy_is_as_good_a_source_as_the_original),
        (BreakOne.brings_a_file_once, test_a_file_removed_and_fetched_again_at_once_is_there),
    ],
)
def test_the_suite_notices_a_network_that(name, request, breaking: Callable, check: Callable):
    world = a_broken_world(name, request, breaking)

    with pytest.raises(RED):
        check(world)


@pytest.mark.parametrize("name", ["live", "simulated"])  # others ask for nothing but a digest
def test_the_suite_notices_a_network_that_checks_no_digest(name, request):
    world = a_broken_world(name, request, BreakOne.checks_no_digest)

    with pytest.raises(RED):
        test_other_content_than_was_asked_for_does_not_come(world)


@pytest.mark.parametrize(
    "check",
    [
        test_a_file_fetched_twice_is_there_until_it_is_removed,
        test_of_two_files_that_are_alike_both_come_and_one_stays_when_the_other_is_removed,
    ],
)
def test_the_suite_notices_a_depot_that_gives_two_copies_one_name(request, check):
    def copy_from(self, file, place, owner):
        self._copies = 0
        return LiveWorld.disk_type.copy_from(self, file, place, owner)

    broken = type("Broken", (LiveWorld.disk_type,), {"copy_from": copy_from})
    world = a_world("live", request, disk_type=broken)

    with pytest.raises(RED):
        check(world)


def test_the_suite_notices_a_depot_whose_next_run_gives_the_same_names_again(request):
    def copy_from(self, file, place, owner):
        self._own_word = "copy"
        return LiveWorld.disk_type.copy_from(self, file, place, owner)

    broken = type("Broken", (LiveWorld.disk_type,), {"copy_from": copy_from})
    world = a_world("live", request, disk_type=broken)

    with pytest.raises(RED):
        test_a_file_fetched_again_by_a_new_disk_over_the_same_storage_is_there(world)


def test_the_suite_notices_a_network_that_keeps_what_was_cancelled(request):
    def keep(network):
        async def fetch(self, file, source):
            self.machine.stored.put(file.id, 0, file.producer, written=False)
            await network.fetch(self, file, source)

        return {"fetch": fetch}

    world = a_broken_world("simulated", request, keep)

    with pytest.raises(AssertionError):
        test_a_fetch_cancelled_on_the_way_leaves_nothing_behind_not_even_traffic(world)


def test_the_suite_notices_a_network_that_goes_on_sending_what_was_cancelled(request):
    def go_on(network):
        async def fetch(self, file, source):
            fiber = self.machine.kernel.spawn(network.fetch(self, file, source))
            await fiber.join()

        return {"fetch": fetch}

    world = a_broken_world("simulated", request, go_on)

    with pytest.raises(AssertionError):
        test_a_fetch_cancelled_on_the_way_leaves_nothing_behind_not_even_traffic(world)


def test_the_suite_notices_a_network_that_looks_at_the_source_only_at_first(request):
    def look_once(network):
        def _offered(self, file, source):
            self.seen = getattr(self, "seen", None) or network._offered(self, file, source)
            return self.seen

        return {"_offered": _offered}

    world = a_broken_world("simulated", request, look_once)

    with pytest.raises(RED):
        test_a_source_that_fails_on_the_way_sends_nothing(world, drop)
