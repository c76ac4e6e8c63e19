"""Files that may go when a depot is full: those that every reader has read."""

import pytest

from dataward.model.operations import Begin, Commit, InputFile, Notify, OutputFile, Submit
from dataward.model.workflow import FileId, TaskId
from dataward.world import DiskFull
from node.fake_world import FakeWorld, a_task


class Place(FakeWorld):
    """Node n0, where task p has written ``read``, which c reads, and ``result``; 800 bytes."""

    def __init__(self, retry_seconds_max: float = 10.0) -> None:
        super().__init__(retry_seconds_max=retry_seconds_max)
        self.join()
        writes = tuple(OutputFile(FileId(name), 400, f"d-{name}") for name in ("read", "result"))
        self.have(Submit(a_task("p", writes=["read", "result"], children=("c",))))
        self.have(Submit(a_task("c", reads=["read"], made_by="p")))
        self.have(Begin("p", "n0.1.1", "n0"), Commit("p", "n0.1.1", "n0", (), 1, writes))
        self.have(Notify("c", "p", 1, False, ()))
        self.depot.used_bytes += 800
        self.depot.keep_outputs(TaskId("p"), writes)

    def end_reader(self) -> None:
        self.have(Begin("c", "n1.1.1", "n1"), Commit("c", "n1.1.1", "n1", (), 1))

    def needs(self, size_bytes: int) -> bool:
        """Whether there is room for so many bytes; if so, it has been made."""
        try:
            self.depot.make_room(size_bytes)
        except DiskFull:
            return False
        return True


def test_what_a_task_will_read_stays() -> None:
    place = Place()

    assert not place.do(place.room.gain())

    assert not place.needs(300)


def test_what_all_its_readers_have_read_goes_and_results_stay() -> None:
    place = Place()
    place.end_reader()

    assert place.do(place.room.gain())

    assert place.needs(300)
    assert FileId("read") not in place.depot
    assert FileId("result") in place.depot
    assert not place.needs(900)


def test_it_goes_only_when_room_is_needed_and_before_copies() -> None:
    place = Place()
    place.end_reader()
    copy = InputFile(FileId("copy"), 100, TaskId("q"), "d-copy")
    place.depot.used_bytes += 100
    place.depot._keep_copy(copy)

    place.do(place.room.gain())
    assert FileId("read") in place.depot

    assert place.needs(150)
    assert FileId("read") not in place.depot
    assert FileId("copy") in place.depot


def test_what_a_user_asked_for_stays_though_it_was_read() -> None:
    place = Place()
    place.end_reader()
    place.disk.wanted.add("read")

    assert not place.do(place.room.gain())


def test_the_store_is_not_asked_again_at_once() -> None:
    place = Place(retry_seconds_max=10.0)
    place.do(place.room.gain())
    place.end_reader()

    assert not place.do(place.room.gain())
    place.pass_time(10.0)
    assert place.do(place.room.gain())


def test_what_has_no_room_says_how_much_there_is() -> None:
    place = Place()

    with pytest.raises(DiskFull) as refused:
        place.depot.make_room(300)

    assert str(refused.value) == (
        "n0 has no room for 300 B more: its depot may hold 1.00 kB, and 800 B must stay"
    )


def test_for_others_on_the_machine_all_goes_that_may_and_that_nobody_reads() -> None:
    place = Place()
    place.end_reader()
    copies = [InputFile(FileId(name), 50, TaskId("q"), f"d-{name}") for name in ("x", "y")]
    for copy in copies:
        place.depot.used_bytes += 50
        place.depot._keep_copy(copy)
    place.depot._pins[FileId("y")] = 1
    place.do(place.room.gain())

    place.depot.shed()

    assert [name in place.depot for name in ("read", "result", "x", "y")] == [
        False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "retry_seconds_max", "gap_seconds", "is_hopeless"),
    [
        (2, 0.1, 0.25, True),  # a busy machine is slower than the pauses say
        (200, 10.0, 2000.0, True),  # it has been at all others in between
        (2, 0.1, 61.0, False),
        (200, 10.0, 8001.0, False),
    ],
)
def test_a_task_that_finds_no_room_again_and_again_is_hopeless(
    nodes: int, retry_seconds_max: float, gap_seconds: float, is_hopeless: bool
) -> None:
    place = FakeWorld(nodes=nodes, retry_seconds_max=retry_seconds_max, full_disk_tries=2)
    task = TaskId("t")

    found = []
    for _ in range(4):
        found.append(place.room.is_hopeless(task))
        place.pass_time(gap_seconds)

    assert found == [False, False, False, is_hopeless]
