"""The depot on a simulated disk and network: what stays, what goes, what is given up."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.answers import Begun
from dataward.model.events import Event, FileEvicted, FileMoved, FileStored
from dataward.model.ids import ORIGIN
from dataward.model.operations import (
    AddCopies,
    Commit,
    Copy,
    DropCopies,
    InputFile,
    OutputFile,
    TaskSpec,
)
from dataward.model.workflow import FileId, TaskId
from dataward.node.depot import Depot
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.sim.parts import SimDisk
from dataward.sim.simulation import Simulation
from dataward.sim.truth import Truth
from dataward.world import DiskFull, InputLost, StoredFile, Unserved
from node.fake_world import FakeWorld
from sim.small_runs import MB, adage, cheap, machines, one_task

T = TypeVar("T")
Seen = tuple[str, FileId]
COPY = Copy(FileId("a"), "n1")


def a_task(
    id: str = "t",
    *,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    made_by: str = "",
    size_bytes: int = 100 * MB,
) -> TaskSpec:
    return TaskSpec(
        id=TaskId(id),
        type="",
        parents=(),
        children=(),
        inputs=tuple(InputFile(FileId(f), size_bytes, TaskId(made_by)) for f in reads),
        outputs=tuple(OutputFile(FileId(f), size_bytes) for f in writes),
        estimated_seconds=1.0,
        cores=1,
        memory_bytes=0,
        retries=0,
        preferred="n0",
        priority=1.0,
        backups_max=0,
    )


def begun(task: TaskSpec, *copies: Copy) -> Begun:
    return Begun(task, 1, copies, {})


class Place:
    """Node n0's depot, with room for so many files of 100 MB; n1 stands by as a source."""

    def __init__(self, files: float = 1e4, **settings: object) -> None:
        self.events: list[Event] = []
        parts = machines(2, capacity_bytes=files * 100 * MB)
        self.simulation = Simulation(one_task(), cheap(*parts), adage(), sinks=[self.events.append])
        self.machine, self.other = self.simulation.machines.values()
        self.sizes: dict[str, int] = defaultdict(lambda: 100 * MB)  # what tasks really write
        disk = SimDisk(self.machine, self.simulation.fabric, Truth({}, self.sizes))
        world = replace(self.simulation._world(self.machine), disk=disk)
        self.kernel = self.simulation.kernel
        rules = NodeSettings(**settings)  # type: ignore[arg-type]
        store = StoreClient(world.store, world.kernel, world.random, rules)
        self.outbox = NodeState(world, rules).outbox
        self.depot = Depot(world, rules, store, self.outbox)
        self.held: set[FileId] = set()  # by what the depot tells those who watch
        self.depot.watch(self)

    def came(self, file: FileId) -> None:
        self.held.add(file)

    def went(self, file: FileId) -> None:
        self.held.remove(file)

    def told(self) -> list[Seen]:
        """What the depot has to tell the store since it was last asked."""
        words = {AddCopies: "announced", DropCopies: "retracted"}
        said = self.outbox.take()
        return [(words[type(op)], copy.file) for op in said for copy in op.copies]

    def do(self, act: Callable[[], Awaitable[T]]) -> T:
        async def main() -> T:
            return await act()

        return self.kernel.run(main())

    async def visit(self, *files: str) -> None:
        """Bring files in for a task, and let the task end."""
        task = a_task(reads=files)
        await self.depot.bring(begun(task))
        self.depot.release(task)

    def here(self) -> set[str]:
        return {str(file) for file in self.machine.stored.files}

    def evicted(self) -> list[str]:
        return [str(event.file) for event in self.events if isinstance(event, FileEvicted)]

    def check(self) -> None:
        """The depot's books, the disk and the event list agree."""
        assert self.depot.used_bytes == self.machine.stored.used_bytes
        assert self.depot.used_bytes <= self.machine.capacity_bytes
        assert all(FileId(file) in self.depot for file in self.here())
        assert self.held == self.here()
        listed: set[str] = set()
        for event in self.events:
            if isinstance(event, FileStored):
                listed.add(event.file)
            elif isinstance(event, FileEvicted):
                listed.discard(event.file)
        assert listed == self.here()


# --- bringing in ---------------------------------------------------------------------------------


def test_what_is_not_here_is_brought_and_what_is_here_is_not() -> None:
    place = Place()

    async def twice() -> list[tuple[int, int]]:
        first = await place.depot.bring(begun(a_task(reads=["a", "b"])))
        second = await place.depot.bring(begun(a_task(reads=["b", "c"])))
        return [(s.local_bytes, s.moved_bytes) for s in (first, second)]

    assert place.do(twice) == [(0, 200 * MB), (100 * MB, 100 * MB)]
    assert place.here() == {"a", "b", "c"}
    assert set(place.told()) == {("announced", FileId(file)) for file in "abc"}
    place.check()


def test_a_file_wanted_by_two_at_once_is_moved_once() -> None:
    place = Place()

    async def both() -> None:
        fibers = [place.kernel.spawn(place.visit("a", "b")) for _ in range(2)]
        for fiber in fibers:
            await fiber.join()

    place.do(both)

    moved = [event.file for event in place.events if isinstance(event, FileMoved)]
    assert sorted(moved) == ["a", "b"]
    place.check()


def test_one_who_waited_for_anothers_transfer_goes_on_if_that_is_cancelled() -> None:
    place = Place()

    async def one_gives_up() -> None:
        first = place.kernel.spawn(place.visit("a"))
        second = place.kernel.spawn(place.visit("a"))
        await place.kernel.sleep(0.1)
        first.cancel()
        await second.join()

    place.do(one_gives_up)

    assert place.here() == {"a"}
    place.check()


def test_a_transfer_that_is_cancelled_takes_no_room() -> None:
    place = Place(files=2)

    async def give_up() -> None:
        fiber = place.kernel.spawn(place.visit("a", "b"))
        await place.kernel.sleep(0.1)
        assert place.depot.used_bytes == 200 * MB  # kept free for what is on its way
        fiber.cancel()
        await place.kernel.sleep(10.0)

    place.do(give_up)

    assert place.here() == set()
    place.check()


def test_so_many_files_come_at_a_time() -> None:
    place = Place(transfers_max=2)

    place.do(lambda: place.visit("a", "b", "c", "d"))

    # 100 MB at 1 Gbps: two share the link for 1.6 s, then the other two.
    moved = [event.at for event in place.events if isinstance(event, FileMoved)]
    assert moved == [pytest.approx(at) for at in (1.6, 1.6, 3.2, 3.2)]


def test_one_file_at_a_time_is_one_tasks_files_after_anothers() -> None:
    place = Place(transfers_max=1)

    async def both() -> None:
        fibers = [place.kernel.spawn(place.visit(*files)) for files in ("bca", "edf")]
        for fiber in fibers:
            await fiber.join()

    place.do(both)

    moved = [event.file for event in place.events if isinstance(event, FileMoved)]
    assert "".join(moved) == "bcaedf"


def test_known_copies_are_used_before_the_store_is_asked() -> None:
    place = Place()
    place.other.stored.put(FileId("a"), 100 * MB, "maker", written=True)
    task = a_task(reads=["a"], made_by="maker")

    place.do(lambda: place.depot.bring(begun(task, Copy(FileId("a"), "n1"))))

    (moved,) = [event for event in place.events if isinstance(event, FileMoved)]
    assert moved.source == "n1"
    assert place.simulation.store.calls == 0


def test_an_input_without_any_copy_is_lost() -> None:
    place = Place()
    task = a_task(reads=["a"], made_by="maker")

    with pytest.raises(InputLost, match="no copy of 'a' is left") as lost:
        place.do(lambda: place.depot.bring(begun(task, Copy(FileId("a"), "n1"))))

    assert lost.value.producers == ("maker",)
    assert place.kernel.now() == pytest.approx(0.5 * 2)  # then the store knows of nobody to ask
    place.check()


def test_all_that_is_lost_is_told_at_once() -> None:
    place = Place()
    place.other.stored.put(FileId("b"), 100 * MB, "maker of b", written=True)
    inputs = tuple(InputFile(FileId(f), 100 * MB, TaskId(f"maker of {f}")) for f in "abc")
    task = a_task()
    task = TaskSpec(**{**{f: getattr(task, f) for f in task.__struct_fields__}, "inputs": inputs})

    with pytest.raises(InputLost) as lost:
        place.do(lambda: place.depot.bring(begun(task, Copy(FileId("b"), "n1"))))

    assert lost.value.producers == ("maker of a", "maker of c")


def test_an_input_of_the_workflow_that_nobody_serves_is_late_at_first() -> None:
    place = Place()
    place.simulation.interference.cuts.append(frozenset({"origin"}))

    with pytest.raises(Unserved, match="'a' is not served") as late:
        place.do(lambda: place.visit("a"))

    assert not late.value.is_lost

    place.check()


def test_inputs_come_from_the_origin_alone_if_so_set() -> None:
    place = Place(inputs_from_origin=True)
    place.other.stored.put(FileId("a"), 100 * MB, "a", written=False)

    async def announce_and_visit() -> None:
        await place.simulation.store.call("n1", [AddCopies(TaskId("a"), (COPY,))])
        await place.visit("a")

    place.do(announce_and_visit)

    (moved,) = [event for event in place.events if isinstance(event, FileMoved)]
    assert moved.source == ORIGIN
    assert place.simulation.store.calls == 1  # nobody need be asked where it is
    place.check()


def test_an_origin_that_cannot_be_reached_is_tried_again_later() -> None:
    place = Place(inputs_from_origin=True)
    cut = frozenset({"origin"})
    place.simulation.interference.cuts.append(cut)
    place.kernel.call_at(0.2, place.simulation.interference.cuts.remove, cut)

    place.do(lambda: place.visit("a"))

    assert place.here() == {"a"}
    assert place.kernel.now() > 1.0  # it waited twice retry_seconds, then took 0.8 s


# --- caching -------------------------------------------------------------------------------------


def test_without_caching_what_was_fetched_goes_with_the_last_task_that_reads_it() -> None:
    place = Place(caching=False)
    one, other = a_task("one", reads=["a"]), a_task("other", reads=["a"])

    async def both() -> None:
        await place.depot.bring(begun(one))
        await place.depot.bring(begun(other))
        place.depot.release(one)
        assert place.here() == {"a"}
        place.depot.release(other)
        assert place.here() == set()
        await place.visit("a")

    place.do(both)

    moved = [event.file for event in place.events if isinstance(event, FileMoved)]
    assert moved == ["a", "a"]
    assert not any(place.depot.loose_ends().values())
    assert "announced" not in dict(place.told())
    place.check()


def test_without_caching_what_was_here_from_the_start_stays() -> None:
    place = Place(caching=False)
    place.machine.stored.put(FileId("a"), 100 * MB, "a", written=False)
    place.events.append(FileStored(0.0, FileId("a"), "n0", 100 * MB))

    async def use_it() -> None:
        await place.depot.recover()
        await place.visit("a")

    place.do(use_it)

    assert place.here() == {"a"}
    place.check()


# --- room ----------------------------------------------------------------------------------------


def test_the_least_recently_used_goes_first() -> None:
    place = Place(files=3)

    async def visits() -> None:
        for file in ("a", "b", "c", "a", "d", "e"):
            await place.visit(file)

    place.do(visits)

    assert place.evicted() == ["b", "c"]
    assert ("retracted", FileId("b")) in place.told()
    assert place.here() == {"a", "d", "e"}
    place.check()


def test_what_a_task_holds_stays() -> None:
    place = Place(files=3)

    async def hold_a() -> None:
        await place.depot.bring(begun(a_task(reads=["a"])))
        for file in ("b", "c", "d", "e"):
            await place.visit(file)

    place.do(hold_a)

    assert place.evicted() == ["b", "c"]
    place.check()


def test_a_file_held_twice_stays_until_both_let_go() -> None:
    place = Place(files=1)
    task = a_task(reads=["a"])

    async def hold_twice() -> None:
        await place.depot.bring(begun(task))
        await place.depot.bring(begun(task))
        place.depot.release(task)
        with pytest.raises(DiskFull):
            await place.visit("b")
        place.depot.release(task)
        await place.visit("b")

    place.do(hold_twice)

    assert place.here() == {"b"}
    place.check()


def test_what_was_written_here_stays() -> None:
    place = Place(files=2)
    maker = a_task(writes=["made"])

    async def make_and_visit() -> None:
        place.depot.keep_outputs(maker.id, await place.depot.store_outputs(maker))
        for file in ("a", "b", "c"):
            await place.visit(file)

    place.do(make_and_visit)

    assert place.evicted() == ["a", "b"]
    assert place.here() == {"made", "c"}
    place.check()


def test_with_no_room_nothing_is_evicted_in_vain() -> None:
    place = Place(files=3)

    async def too_much() -> None:
        await place.visit("a")
        await place.depot.bring(begun(a_task(reads=["b"])))
        with pytest.raises(DiskFull, match="n0 has no room"):
            await place.depot.store_outputs(a_task(writes=["x", "y", "z"]))

    place.do(too_much)

    assert place.here() == {"a", "b"}
    place.check()


@pytest.mark.parametrize("estimated_bytes", [0, 300 * MB])
def test_room_is_made_for_what_a_task_wrote_whatever_was_estimated(estimated_bytes: int) -> None:
    place = Place(files=3)

    async def write_one_file() -> None:
        await place.visit("a", "b", "c")
        await place.depot.store_outputs(a_task(writes=["x"], size_bytes=estimated_bytes))

    place.do(write_one_file)

    assert place.evicted() == ["a"]
    assert place.depot.used_bytes == 300 * MB


def test_a_task_that_does_not_fit_holds_nothing_afterwards() -> None:
    place = Place(files=2)

    async def too_much() -> None:
        with pytest.raises(DiskFull):
            await place.visit("a", "b", "c")
        await place.visit("d", "e")

    place.do(too_much)

    assert place.here() == {"d", "e"}
    place.check()


# --- outputs -------------------------------------------------------------------------------------


def test_outputs_that_lost_are_removed() -> None:
    place = Place()
    task = a_task(writes=["x", "y"])

    async def lose() -> None:
        outputs = await place.depot.store_outputs(task)
        assert place.here() == {"x", "y"}
        place.depot.discard_outputs(outputs)

    place.do(lose)

    assert place.here() == set()
    place.check()


def test_a_fetched_copy_becomes_the_original_when_made_here() -> None:
    place = Place(files=3)
    place.other.stored.put(FileId("x"), 100 * MB, "t", written=True)
    maker = a_task("t", writes=["x"])

    async def make_it_again() -> None:
        task = a_task(reads=["x"], made_by="t")
        await place.depot.bring(begun(task, Copy(FileId("x"), "n1")))
        place.depot.release(task)
        place.depot.keep_outputs(maker.id, await place.depot.store_outputs(maker))
        for file in ("a", "b", "c"):
            await place.visit(file)

    place.do(make_it_again)

    assert "x" in place.here()
    assert "x" not in place.evicted()
    place.check()


def test_what_is_made_here_while_it_is_fetched_counts_once_and_stays_the_original() -> None:
    place = Place(files=3)
    place.other.stored.put(FileId("x"), 100 * MB, "t", written=True)
    maker = a_task("t", writes=["x"])
    reader = a_task(reads=["x"], made_by="t")

    async def make_it_meanwhile() -> None:
        fetching = place.kernel.spawn(place.depot.bring(begun(reader, Copy(FileId("x"), "n1"))))
        await place.kernel.sleep(0.1)
        place.depot.keep_outputs(maker.id, await place.depot.store_outputs(maker))
        await fetching.join()
        place.depot.release(reader)
        for file in ("a", "b", "c"):
            await place.visit(file)

    place.do(make_it_meanwhile)

    assert any(isinstance(event, FileMoved) and event.file == "x" for event in place.events)
    assert "x" not in place.evicted()
    place.check()


def test_after_a_crash_only_what_was_committed_is_kept() -> None:
    place = Place()
    stored = place.machine.stored
    stored.put(FileId("committed"), 100 * MB, "done", written=True)
    stored.put(FileId("half"), 100 * MB, "undone", written=True)
    stored.put(FileId("copy"), 100 * MB, "elsewhere", written=False)
    stored.commits.append(Commit(TaskId("done"), "n0.1.1", "n0"))

    place.do(place.depot.recover)

    assert place.here() == {"committed", "copy"}
    assert place.told() == [("announced", FileId("committed")), ("announced", FileId("copy"))]
    assert place.depot.used_bytes == stored.used_bytes == 200 * MB


# --- any order of events -------------------------------------------------------------------------

files = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3, unique=True)


@given(st.lists(st.tuples(st.sampled_from(["bring", "make", "lose", "end"]), files), max_size=25))
def test_the_books_always_agree_with_the_disk(steps: list[tuple[str, list[str]]]) -> None:
    place = Place(files=5)
    running: list[TaskSpec] = []

    async def live() -> None:
        for number, (step, names) in enumerate(steps):
            if step == "end" and running:
                place.depot.release(running.pop(0))
            elif step == "bring":
                task = a_task(f"t{number}", reads=names)
                try:
                    await place.depot.bring(begun(task))
                    running.append(task)
                except DiskFull:
                    pass
            elif step in ("make", "lose"):
                task = a_task(f"t{number}", writes=[f"{number}.{name}" for name in names])
                try:
                    outputs = await place.depot.store_outputs(task)
                except DiskFull:
                    continue
                if step == "make":
                    place.depot.keep_outputs(task.id, outputs)
                else:
                    place.depot.discard_outputs(outputs)
            place.check()
            held = {str(file.id) for task in running for file in task.inputs}
            assert held <= place.here()

    place.do(live)


# --- whose files they are ------------------------------------------------------------------------


def test_files_found_on_the_disk_are_announced_under_their_producer_or_their_own_name() -> None:
    world = FakeWorld()
    world.disk.stored = {
        FileId("in"): StoredFile(FileId("in"), 10, "in", written=False),
        FileId("made"): StoredFile(FileId("made"), 10, "p", written=False),
    }

    world.do(world.depot.recover())

    assert world.state.outbox.take() == [
        AddCopies(TaskId("in"), (Copy(FileId("in"), "n0"),)),
        AddCopies(TaskId("p"), (Copy(FileId("made"), "n0"),)),
    ]


def test_an_input_that_was_put_here_for_the_run_is_never_evicted() -> None:
    world = FakeWorld()
    world.disk.capacity_bytes = 25
    world.disk.stored = {
        FileId("only"): StoredFile(FileId("only"), 10, "only", written=False, kept=True),
        FileId("copy"): StoredFile(FileId("copy"), 10, "copy", written=False),
    }
    world.do(world.depot.recover())

    world.depot.make_room(15)

    assert FileId("only") in world.depot
    assert FileId("copy") not in world.depot
    with pytest.raises(DiskFull):
        world.depot.make_room(16)


def test_files_that_go_are_retracted_under_their_producer_or_their_own_name() -> None:
    world = FakeWorld()
    for producer, file in (("", "in"), ("p", "made")):
        task = a_task(reads=[file], made_by=producer, size_bytes=10)
        world.do(world.depot.bring(begun(task, Copy(FileId(file), "n1"))))
        world.depot.release(task)
    world.depot.keep_outputs(TaskId("t"), (OutputFile(FileId("own"), 10),))
    world.state.outbox.take()

    for file in ("in", "made", "own"):
        world.depot.drop(FileId(file))

    assert world.state.outbox.take() == [
        DropCopies(TaskId("in"), (Copy(FileId("in"), "n0"),)),
        DropCopies(TaskId("p"), (Copy(FileId("made"), "n0"),)),
        DropCopies(TaskId("t"), (Copy(FileId("own"), "n0"),)),
    ]
