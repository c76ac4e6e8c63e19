"""What `Disk` promises, held against the depot on a real disk and the simulated one.

A power cut is real for the simulated disk. For the depot it is worked out from what was synced, and
when: see `pulled_plug`. What `sync` makes safe is what tasks wrote here; a copy that was fetched
has its original elsewhere.

`Disk.journal` reads so: a commit that the store acknowledged is remembered by the disk, or the
store cannot forget it. The simulated disk and that of a host do the first, the store of a depot on
one machine the second.
"""

from collections.abc import Callable

import pytest

from conformance.both_worlds import (
    ON_A_HOST,
    WORLDS,
    LiveWorld,
    SimWorld,
    a_spec,
    a_world,
    as_input,
)
from conformance.store_cases import Asker, HandClock, a_task, run_alone
from dataward.kernel import VirtualKernel
from dataward.live.durability import SYNC_ALL_FILES
from dataward.model.ids import ORIGIN
from dataward.model.operations import Commit, InputFile, OutputFile
from dataward.stores.embedded import EmbeddedStore
from dataward.world import DiskFull, InputLost, StoredFile

World = LiveWorld | SimWorld
MANY = SYNC_ALL_FILES + 1
RED = (AssertionError, pytest.fail.Exception, InputLost)  # what a test of this suite ends with


@pytest.fixture(params=[*WORLDS, ON_A_HOST])
def world(request) -> World:
    return a_world(request.param, request)


@pytest.fixture
def live(request) -> LiveWorld:
    return a_world("live", request)


def store(world: World, task: str, node: str = "n0", **contents: bytes) -> tuple[OutputFile, ...]:
    spec = world.write(node, task, **contents)
    return world.run(world.disks[node].store_outputs(spec))


def store_large(world: World, task: str, **contents: bytes) -> tuple[OutputFile, ...]:
    spec = world.write("n0", task, large=True, **contents)
    return world.run(world.disks["n0"].store_outputs(spec))


def sync(world: World) -> None:
    world.run(world.disks["n0"].sync())


def files(world: World, node: str = "n0") -> dict[str, StoredFile]:
    return {file.id: file for file in world.disks[node].files()}


def found_whole(world: World, node: str = "n0") -> list[str]:
    """The files that the disk tells of and that are really there."""
    return [file.id for file in world.disks[node].files() if world.is_readable(node, file)]


# --- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [store, store_large])
def test_outputs_are_returned_with_their_sizes_and_digests(world, keep):
    stored = keep(world, "t", a=b"one", b=b"three")

    assert stored == (
        OutputFile("a", 3, world.digest("t", "a", b"one")),
        OutputFile("b", 5, world.digest("t", "b", b"three")),
    )


@pytest.mark.parametrize("large", [False, True])
def test_a_disk_tells_how_much_a_task_wrote_before_that_is_stored(world, large):
    spec = world.write("n0", "t", large=large, a=b"one", b=b"three")

    assert world.disks["n0"].output_bytes(spec) == 3 + 5


def test_a_disk_tells_of_its_files_oldest_first_with_who_wrote_them(world):
    assert world.disks["n0"].files() == []

    store(world, "t", b=b"one")
    store(world, "u", a=b"two", c=b"")

    assert world.disks["n0"].files() == [
        StoredFile("b", 3, "t", True, world.digest("t", "b", b"one")),
        StoredFile("a", 3, "u", True, world.digest("u", "a", b"two")),
        StoredFile("c", 0, "u", True, world.digest("u", "c", b"")),
    ]
    assert found_whole(world) == ["b", "a", "c"]


def test_a_file_that_is_made_anew_takes_the_place_of_the_old_one_as_the_newest(world):
    store(world, "t", a=b"old")
    store(world, "u", b=b"other")

    store(world, "t", a=b"newer")

    assert [(file.id, file.size_bytes) for file in world.disks["n0"].files()] == [
        ("b", 5),
        ("a", 5),
    ]
    assert found_whole(world) == ["b", "a"]
    assert world.count_of_stray_files("n0") == 0


def test_what_an_earlier_run_left_is_recalled_as_the_tasks_output(world):
    left = world.leave("n0", "a", b"one")

    assert world.disks["n0"].recall(left, "t")

    assert world.disks["n0"].files() == [StoredFile("a", 3, "t", True, left.digest)]
    assert found_whole(world) == ["a"]


def test_what_an_earlier_run_left_is_recalled_only_if_it_is_the_very_file(world):
    world.leave("n0", "a", b"one")

    assert not world.disks["n0"].recall(OutputFile("a", 3, "another digest"), "t")
    assert not world.disks["n0"].recall(OutputFile("b", 3, "unknown"), "t")
    assert world.disks["n0"].files() == []


def test_what_was_recalled_survives_a_power_cut(world):
    left = world.leave("n0", "a", b"one")
    sync(world)
    world.disks["n0"].recall(left, "t")

    world.cut_power("n0")

    assert found_whole(world) == ["a"]


def test_what_was_recalled_from_another_depot_survives_a_power_cut(live):
    left = live.leave("n1", "a", b"one")
    assert live.disks["n0"].recall(left, "t")
    assert live.disks["n0"].files() == [StoredFile("a", 3, "t", True, left.digest)]

    live.cut_power("n0")

    assert found_whole(live) == ["a"]


def test_what_cannot_be_made_safe_is_not_recalled_from_another_depot(live):
    left = live.leave("n1", "a", b"one")
    live.fill_up("n0")

    assert not live.disks["n0"].recall(left, "t")

    assert files(live) == {}
    assert live.count_of_stray_files("n0") == 0
    live.empty_out("n0")
    assert live.disks["n0"].recall(left, "t")


def test_a_new_disk_over_the_same_storage_has_the_same_files_in_the_same_order(world):
    store(world, "t", b=b"one")
    store_large(world, "u", a=b"two")
    before = [(file.id, file.size_bytes, file.digest) for file in world.disks["n0"].files()]

    world.reopen("n0")

    after = [(file.id, file.size_bytes, file.digest) for file in world.disks["n0"].files()]
    assert after == before
    assert found_whole(world) == ["b", "a"]


def test_where_there_is_no_room_outputs_are_refused_and_none_of_them_is_there(world):
    store(world, "t", a=b"one")
    sync(world)
    world.fill_up("n0")

    with pytest.raises(DiskFull):
        store_large(world, "u", b=b"two", c=b"three")

    world.empty_out("n0")
    assert found_whole(world) == ["a"]
    assert world.count_of_stray_files("n0") == 0


def test_outputs_of_which_only_the_last_finds_no_room_are_not_there_either(world):
    """On a real disk the last is one that has to be moved there, the others were put there."""
    disk = world.disks["n0"]
    if isinstance(world, LiveWorld):
        spec = world.write("n0", "t", a=b"one", b=b"two")
        small, last = disk._written["t"]
        disk.wrote("t", (small, last._replace(digest="", path=str(world.directory / "nowhere"))))
    else:
        spec = world.write("n0", "t", a=b"one", b=b"two")
        world.machines["n0"].capacity_bytes = 5

    with pytest.raises(DiskFull):
        world.run(disk.store_outputs(spec))

    assert files(world) == {}


def test_two_tasks_do_not_both_get_the_last_room():
    world = SimWorld()
    world.machines["n0"].capacity_bytes = 5
    disk, ends = world.disks["n0"], []

    async def try_to_store(spec):
        try:
            ends.append(await disk.store_outputs(spec))
        except DiskFull:
            ends.append(None)

    async def both():
        fibers = [
            world.kernel.spawn(try_to_store(world.write("n0", task, **{task: b"one"})))
            for task in "ab"
        ]
        for fiber in fibers:
            await fiber.join()

    world.run(both())

    assert [end is None for end in ends] == [False, True]
    assert list(files(world)) == ["a"]
    world.close()


# --- power cuts ----------------------------------------------------------------------------------


def test_what_was_synced_survives_a_power_cut(world):
    store(world, "t", a=b"one", b=b"two")
    sync(world)

    world.cut_power("n0")

    assert found_whole(world) == ["a", "b"]


def test_many_files_synced_at_once_survive_a_power_cut(world):
    for i in range(MANY):
        store(world, f"t{i}", **{f"f{i}": f"content {i}".encode()})
    sync(world)

    world.cut_power("n0")

    assert found_whole(world) == [f"f{i}" for i in range(MANY)]


def test_what_was_stored_large_survives_a_power_cut_once_synced(world):
    store_large(world, "t", a=b"one")
    sync(world)

    world.cut_power("n0")

    assert found_whole(world) == ["a"]


def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(world):
    store(world, "t", a=b"one")
    sync(world)
    store(world, "u", b=b"two")

    world.cut_power("n0")

    assert found_whole(world) == ["a"]
    store(world, "u", b=b"two")
    sync(world)
    world.cut_power("n0")
    assert found_whole(world) == ["a", "b"]


def test_a_sync_with_nothing_new_to_sync_is_no_trouble(world):
    sync(world)
    store(world, "t", a=b"one")
    sync(world)
    sync(world)

    world.cut_power("n0")

    assert found_whole(world) == ["a"]


def test_whoever_syncs_while_a_sync_is_under_way_waits_for_what_it_writes_too(world):
    disk = world.disks["n0"]
    for i in range(MANY):
        store(world, f"t{i}", **{f"f{i}": f"content {i}".encode()})

    async def sync_twice_at_once():
        first = world.kernel.spawn(disk.sync())
        await world.kernel.sleep(0)  # so that the first is under way
        await disk.sync()
        first_is_done = first.done()
        await first.join()
        return first_is_done

    assert world.run(sync_twice_at_once())


def test_a_file_removed_before_the_sync_is_no_hindrance(world):
    store(world, "t", a=b"one", b=b"two")
    world.disks["n0"].remove("a")

    sync(world)
    world.cut_power("n0")

    assert found_whole(world) == ["b"]


@pytest.mark.parametrize("count", [1, MANY])
def test_a_sync_that_fails_says_so_and_the_next_one_starts_afresh(live, count):
    store(live, "t", a=b"one")
    sync(live)
    for i in range(count):
        store(live, f"u{i}", **{f"f{i}": b"two"})
    live.fill_up("n0")

    with pytest.raises(DiskFull, match="the disk of the depot is full"):
        sync(live)

    live.empty_out("n0")
    store(live, "v", c=b"three")
    sync(live)
    live.cut_power("n0")
    assert {"a", "c"} <= set(found_whole(live))


def test_what_a_disk_has_no_room_to_sync_is_refused_and_what_was_synced_stays(world):
    store(world, "t", a=b"one")
    sync(world)
    store(world, "u", b=b"two")
    world.fill_up("n0")

    with pytest.raises(DiskFull):
        sync(world)

    world.disks["n0"].remove("b")
    sync(world)
    world.empty_out("n0")
    world.cut_power("n0")
    assert found_whole(world) == ["a"]


def test_a_sync_that_fails_fails_for_all_who_wait_for_it(live):
    store(live, "t", a=b"one")
    live.fill_up("n0")
    disk, failures = live.disks["n0"], []

    async def try_to_sync():
        try:
            await disk.sync()
        except DiskFull as full:
            failures.append(full)

    async def sync_twice_at_once():
        first = live.kernel.spawn(try_to_sync())
        await live.kernel.sleep(0)
        await try_to_sync()
        await first.join()

    live.run(sync_twice_at_once())

    assert len(failures) == 2


def test_on_a_real_disk_a_small_file_has_its_name_then_is_synced_then_its_directory(live):
    live.plug.calls.clear()
    store(live, "t", a=b"one")
    name = live.disks["n0"].where("a").path.rsplit("/", 1)[1]

    sync(live)

    assert live.plug.calls == [("rename", "written-1"), ("fsync", name), ("fsync", "n0")]


def test_on_a_real_disk_a_large_file_is_synced_then_has_its_name_then_its_directory(live):
    live.plug.calls.clear()
    store_large(live, "t", a=b"one")
    sync(live)

    assert live.plug.calls == [
        ("rename", "written-1"),
        ("fsync", "1"),
        ("rename", "1"),
        ("fsync", "n0"),
    ]


def test_on_a_real_disk_many_files_are_synced_with_their_file_system(live):
    for i in range(MANY):
        store(live, f"t{i}", **{f"f{i}": b"content"})
    live.plug.calls.clear()

    sync(live)

    assert live.plug.calls == [("syncfs", ""), ("fsync", "n0")]


# --- inputs --------------------------------------------------------------------------------------


def test_inputs_that_are_there_are_opened(world):
    stored = store(world, "t", a=b"one", b=b"two")
    reader = a_spec("r", inputs=[as_input(file, "t") for file in stored])

    assert world.run(world.disks["n0"].open_inputs(reader)) is None
    assert world.run(world.disks["n0"].open_inputs(a_spec("reads nothing"))) is None
    assert found_whole(world) == ["a", "b"]


def test_inputs_that_have_gone_are_named_and_no_others(world):
    stored = store(world, "t", a=b"one", b=b"two", c=b"three")
    reader = a_spec("r", inputs=[as_input(file, "t") for file in stored])
    world.lose("n0", "a")
    world.lose("n0", "c")

    with pytest.raises(InputLost) as lost:
        world.run(world.disks["n0"].open_inputs(reader))

    assert lost.value.files == (reader.inputs[0], reader.inputs[2])
    assert lost.value.producers == ("t",)
    assert found_whole(world) == ["b"]


def test_an_input_that_no_task_wrote_is_not_told_as_lost(world):
    reader = a_spec("r", inputs=[InputFile("from outside", 3, "")])

    assert world.run(world.disks["n0"].open_inputs(reader)) is None


# --- removing ------------------------------------------------------------------------------------


def test_a_file_that_is_removed_is_gone_also_for_a_new_disk(world):
    store(world, "t", a=b"one", b=b"two")

    world.disks["n0"].remove("a")

    assert found_whole(world) == ["b"]
    assert world.count_of_stray_files("n0") == 0
    world.reopen("n0")
    assert found_whole(world) == ["b"]


def test_to_remove_what_is_not_there_is_harmless(world):
    store(world, "t", a=b"one")

    world.disks["n0"].remove("never was")
    world.disks["n0"].remove("a")
    world.disks["n0"].remove("a")

    assert files(world) == {}
    store(world, "t", a=b"one")
    assert found_whole(world) == ["a"]


@pytest.mark.parametrize("keep", [store, store_large])
def test_of_two_files_that_are_alike_one_stays_when_the_other_is_removed(world, keep):
    keep(world, "t", a=b"same", b=b"same")

    world.disks["n0"].remove("a")

    assert found_whole(world) == ["b"]


@pytest.mark.parametrize("keep", [store, store_large])
def test_files_that_are_alike_go_each_by_itself_also_on_a_new_disk(world, keep):
    keep(world, "t", a=b"same", b=b"same")
    world.reopen("n0")

    world.disks["n0"].remove("a")
    assert found_whole(world) == ["b"]

    world.disks["n0"].remove("b")
    assert found_whole(world) == []


def test_a_file_that_was_spoiled_and_made_anew_is_there(world):
    store(world, "t", a=b"one", b=b"one")
    world.lose("n0", "a")

    store(world, "t", a=b"one")

    assert found_whole(world) == ["b", "a"]


def test_the_room_of_a_removed_file_is_free_again():
    world = SimWorld()
    world.machines["n0"].capacity_bytes = 5
    store(world, "t", a=b"five!")

    world.disks["n0"].remove("a")

    store(world, "u", b=b"again")
    assert found_whole(world) == ["b"]
    world.close()


def test_what_came_from_elsewhere_is_told_with_its_producer_and_as_not_written_here(world):
    (stored,) = store(world, "t", "n1", a=b"one")
    world.run(world.networks["n0"].fetch(as_input(stored, "t"), "n1"))
    world.run(world.networks["n0"].fetch(world.given, ORIGIN))

    assert files(world) == {
        "a": StoredFile("a", 3, "t", False, stored.digest),
        "given": StoredFile("given", world.given.size_bytes, "given", False, world.given.digest),
    }


# --- the journal ---------------------------------------------------------------------------------


def commits(count: int) -> list[Commit]:
    return [Commit(f"t{i}", f"n0.1.{i}", "n0", generation=1) for i in range(count)]


def test_a_disk_remembers_commits_through_a_power_cut_unless_its_store_forgets_none(
    world, tmp_path
):
    acknowledged = commits(3)
    for commit in acknowledged:
        world.disks["n0"].journal(commit)

    world.cut_power("n0")

    if world.disk_keeps_a_journal:
        assert world.disks["n0"].journalled() == acknowledged
    else:
        assert world.disks["n0"].journalled() == []
        assert committed_and_reopened(acknowledged, tmp_path) == {"t0", "t1", "t2"}


def test_a_file_that_came_to_stay_stays_on_a_new_disk_too(world):
    stored = store(world, "t", "n1", a=b"one")[0]
    fetched = as_input(stored, "t")
    world.run(world.networks["n0"].fetch(fetched, "n1"))
    assert not any(file.kept for file in world.disks["n0"].files())

    world.disks["n0"].keep(fetched)
    world.reopen("n0")

    (file,) = world.disks["n0"].files()
    if world.disk_keeps_a_journal:
        assert (file.id, file.owner, file.written, file.kept) == ("a", "t", False, True)


def committed_and_reopened(acknowledged: list[Commit], directory) -> set[str]:
    """What the store of a live session still knows after it was closed and opened again."""
    clock = HandClock()
    with EmbeddedStore(directory / "store", clock, VirtualKernel()) as kept:
        asker = Asker(kept, clock, run_alone)
        asker.submit(*(a_task(commit.task) for commit in acknowledged))
        for commit in acknowledged:
            asker.begin(commit.task, commit.attempt)
            asker.ask(commit)
    with EmbeddedStore(directory / "store", clock, VirtualKernel()) as reopened:
        return {task.spec.id for task in reopened.committed()}


# --- the suite itself ----------------------------------------------------------------------------


class BreakOne:
    """Disks with one promise broken, of either kind."""

    @staticmethod
    def syncs_nothing(disk):
        async def sync(self):
            self._unsynced = []

        return {"sync": sync}

    @staticmethod
    def keeps_nothing_it_returns(disk):
        async def store_outputs(self, task):
            stored = await disk.store_outputs(self, task)
            self.remove(stored[0].id)
            return stored

        return {"store_outputs": store_outputs}

    @staticmethod
    def says_a_wrong_size(disk):
        async def store_outputs(self, task):
            stored = await disk.store_outputs(self, task)
            return tuple(OutputFile(file.id, file.size_bytes + 1, file.digest) for file in stored)

        return {"store_outputs": store_outputs}

    @staticmethod
    def believes_the_estimates(disk):
        return {"output_bytes": lambda self, task: sum(file.size_bytes for file in task.outputs)}

    @staticmethod
    def tells_newest_first(disk):
        return {"files": lambda self: disk.files(self)[::-1]}

    @staticmethod
    def misses_nothing(disk):
        async def open_inputs(self, task):
            pass

        return {"open_inputs": open_inputs}

    @staticmethod
    def misses_every_input(disk):
        async def open_inputs(self, task):
            if task.inputs:
                raise InputLost(task.inputs)

        return {"open_inputs": open_inputs}

    @staticmethod
    def misses_one_at_a_time(disk):
        async def open_inputs(self, task):
            try:
                await disk.open_inputs(self, task)
            except InputLost as lost:
                raise InputLost(lost.files[:1]) from None

        return {"open_inputs": open_inputs}

    @staticmethod
    def removes_nothing(disk):
        return {"remove": lambda self, file: None}

    @staticmethod
    def must_have_what_it_removes(disk):
        def remove(self, file):
            assert any(known.id == file for known in self.files())
            disk.remove(self, file)

        return {"remove": remove}

    @staticmethod
    def removes_all_of_a_size(disk):
        def remove(self, file):
            sizes = {known.id: known.size_bytes for known in self.files()}
            for name, size in sizes.items():
                if size == sizes[file]:
                    disk.remove(self, name)

        return {"remove": remove}


def outputs_of_both_sizes(world):
    test_outputs_are_returned_with_their_sizes_and_digests(world, store)


def written_bytes(world):
    test_a_disk_tells_how_much_a_task_wrote_before_that_is_stored(world, large=False)


def files_alike(world):
    test_of_two_files_that_are_alike_one_stays_when_the_other_is_removed(world, store)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(
    ("breaking", "check"),
    [
        (BreakOne.syncs_nothing, test_what_was_synced_survives_a_power_cut),
        (BreakOne.syncs_nothing, test_many_files_synced_at_once_survive_a_power_cut),
        (
            BreakOne.keeps_nothing_it_returns,
            test_a_disk_tells_of_its_files_oldest_first_with_who_wrote_them,
        ),
        (
            BreakOne.keeps_nothing_it_returns,
            test_a_new_disk_over_the_same_storage_has_the_same_files_in_the_same_order,
        ),
        (BreakOne.says_a_wrong_size, outputs_of_both_sizes),
        (BreakOne.believes_the_estimates, written_bytes),
        (
            BreakOne.tells_newest_first,
            test_a_disk_tells_of_its_files_oldest_first_with_who_wrote_them,
        ),
        (BreakOne.misses_nothing, test_inputs_that_have_gone_are_named_and_no_others),
        (BreakOne.misses_every_input, test_inputs_that_are_there_are_opened),
        (BreakOne.misses_every_input, test_inputs_that_have_gone_are_named_and_no_others),
        (BreakOne.misses_one_at_a_time, test_inputs_that_have_gone_are_named_and_no_others),
        (BreakOne.removes_nothing, test_a_file_that_is_removed_is_gone_also_for_a_new_disk),
        (BreakOne.must_have_what_it_removes, test_to_remove_what_is_not_there_is_harmless),
        (BreakOne.removes_all_of_a_size, files_alike),
    ],
)
def test_the_suite_notices_a_disk_that(name, request, breaking: Callable, check: Callable):
    kept = LiveWorld.disk_type if name == "live" else SimWorld.disk_type
    broken = type("Broken", (kept,), breaking(kept))
    world = a_world(name, request, disk_type=broken)

    with pytest.raises(RED):
        check(world)


def test_the_suite_notices_a_disk_that_forgets_commits(request, tmp_path):
    broken = type("Broken", (SimWorld.disk_type,), {"journal": lambda self, commit: None})
    world = a_world("simulated", request, disk_type=broken)

    with pytest.raises(AssertionError):
        test_a_disk_remembers_commits_through_a_power_cut_unless_its_store_forgets_none(
            world, tmp_path
        )


def test_the_suite_notices_a_depot_whose_directory_is_not_synced(request, monkeypatch):
    from dataward.live import depot_disk

    monkeypatch.setattr(depot_disk, "_sync_all", lambda paths, depot: depot_disk.sync_files(paths))
    world = a_world("live", request)

    with pytest.raises(AssertionError):
        test_what_was_synced_survives_a_power_cut(world)


def test_the_suite_notices_a_depot_whose_files_are_not_synced(request, monkeypatch):
    from dataward.live import depot_disk

    monkeypatch.setattr(depot_disk, "sync_files", lambda paths: None)
    world = a_world("live", request)

    with pytest.raises(AssertionError):
        test_what_was_synced_survives_a_power_cut(world)


def test_the_suite_notices_a_sync_that_fails_in_silence(request):
    async def sync(self):
        try:
            await LiveWorld.disk_type.sync(self)
        except DiskFull:
            return

    broken = type("Broken", (LiveWorld.disk_type,), {"sync": sync})
    world = a_world("live", request, disk_type=broken)

    with pytest.raises(pytest.fail.Exception):
        test_a_sync_that_fails_says_so_and_the_next_one_starts_afresh(world, 1)
