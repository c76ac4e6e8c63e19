"""The stocker: files come before a task needs them, when nothing else comes, and if they fit."""

from typing import Any

from dataward.model.ids import ORIGIN
from dataward.model.messages import Stock
from dataward.model.operations import AddCopies, Copy, InputFile
from dataward.model.workflow import FileId, TaskId
from dataward.node.node import Node
from dataward.node.rules import Rules
from dataward.node.stocking import Stocker
from dataward.world import StoredFile
from node.fake_world import FakeWorld, a_task


def a_file(name: str, size_bytes: int = 10, producer: str = "") -> InputFile:
    return InputFile(FileId(name), size_bytes, TaskId(producer))


class Place(FakeWorld):
    """A node whose stocker runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.stocker = Stocker(self.world, self.depot)
        self.do(self.depot.recover())
        self.start(self.stocker.run())

    def stock(self, *files: InputFile) -> None:
        self.stocker.stock(files)
        self.pass_time()

    def left(self) -> int:
        return self.stocker.loose_ends()["files to bring in ahead"]


def test_files_come_in_the_order_asked_for_and_others_are_told() -> None:
    place = Place()

    place.stock(a_file("b"), a_file("a"))

    assert place.network.fetched == [("b", ORIGIN), ("a", ORIGIN)]
    assert place.left() == 0
    said = [op for op in place.state.outbox.take() if isinstance(op, AddCopies)]
    assert [op.copies[0] for op in said] == [Copy("b", "n0"), Copy("a", "n0")]


def test_a_file_that_is_here_does_not_come_again() -> None:
    place = Place()

    place.stock(a_file("a"))
    place.stock(a_file("a"))

    assert place.network.fetched == [("a", ORIGIN)]


def test_a_node_that_has_the_file_is_asked_before_the_origin() -> None:
    place = Place()
    place.have(AddCopies(TaskId("a"), (Copy(FileId("a"), "n2"),)))

    place.stock(a_file("a"))

    assert place.network.fetched == [("a", "n2")]


def test_nothing_is_begun_while_a_file_is_on_its_way_for_a_task() -> None:
    place = Place()
    place.depot.is_quiet.clear()

    place.stock(a_file("a"))
    assert place.network.fetched == []
    place.depot.is_quiet.set()
    place.pass_time()

    assert place.network.fetched == [("a", ORIGIN)]


def test_the_depot_is_quiet_but_for_its_transfers() -> None:
    place = Place()
    under_way: list[bool] = []
    fetch = place.network.fetch

    async def watched(file: InputFile, source: str) -> None:
        under_way.append(place.depot.is_quiet.is_set())
        await fetch(file, source)

    place.network.fetch = watched  # type: ignore[method-assign, assignment]
    _, begun = place.begin(a_task(reads=["x", "y"]))

    assert place.depot.is_quiet.is_set()
    place.do(place.depot.bring(begun))

    assert under_way == [False, False]
    assert place.depot.is_quiet.is_set()


def test_no_file_goes_to_make_room_for_one_that_nobody_asked_for_yet() -> None:
    place = Place()
    place.stock(a_file("old", 600))

    place.stock(a_file("big", 500), a_file("small", 300))

    assert [file for file, _ in place.network.fetched] == ["old", "small"]
    assert (FileId("old") in place.depot, place.left()) == (True, 0)
    assert not any(place.depot.loose_ends().values())


def test_a_file_that_cannot_be_had_is_left_to_the_task_that_needs_it() -> None:
    place = Place(fetch_rounds=1)
    place.network.silent = {ORIGIN}

    place.stock(a_file("a"), a_file("made", producer="p"))
    place.network.silent = set()
    place.stock(a_file("b"))

    assert place.network.fetched == [("b", ORIGIN)]
    assert place.left() == 0


def test_where_nothing_is_kept_nothing_is_brought_ahead() -> None:
    place = Place(caching=False)

    place.stock(a_file("a"))

    assert place.network.fetched == []
    assert place.left() == 0


def test_a_task_waits_for_the_file_that_is_coming_anyway() -> None:
    place = Place()
    place.store.answers.clear()  # so that the stocker is still asking where the file is
    place.stock(a_file("in"))
    place.disk.stored[FileId("in")] = StoredFile(FileId("in"), 10, "in", written=False)
    place.store.answers.set()
    place.pass_time()
    _, begun = place.begin(a_task(reads=["in"]))

    staged = place.do(place.depot.bring(begun))

    assert (staged.local_bytes, staged.moved_bytes) == (10, 0)
    assert len(place.network.fetched) == 1


def test_a_node_takes_stock_of_its_disk_before_it_brings_anything_in() -> None:
    place = FakeWorld(inputs_from_origin=True)  # so that it need not ask where files are
    for name in ("a", "b"):
        place.disk.stored[FileId(name)] = StoredFile(FileId(name), 10, name, written=False)
    place.store.answers.clear()  # so that the node has not joined yet
    node = Node(place.world, Rules(settings=place.settings))
    node.start()
    place.network.inbox.put(Stock((a_file("a"), a_file("c"))))
    place.pass_time()
    assert place.network.fetched == []

    place.store.answers.set()
    place.pass_time()

    assert place.network.fetched == [("c", ORIGIN)]
    assert not any(node._depot.loose_ends().values())


def test_a_node_that_is_told_to_brings_files_in() -> None:
    place = FakeWorld()
    node = Node(place.world, Rules(settings=place.settings))
    node.start()
    place.pass_time()

    place.network.inbox.put(Stock((a_file("a"), a_file("b"))))
    place.pass_time()

    assert place.network.fetched == [("a", ORIGIN), ("b", ORIGIN)]
    assert node.loose_ends()["files to bring in ahead"] == 0


def test_small_files_that_travel_together_are_asked_for_at_once() -> None:
    place = Place()
    place.network.together_bytes = 50
    begun: list[tuple[str, float]] = []
    fetch = place.network.fetch

    async def watched(file: InputFile, source: str) -> None:
        begun.append((file.id, place.kernel.now()))
        await place.kernel.sleep(1.0)
        await fetch(file, source)

    place.network.fetch = watched  # type: ignore[method-assign, assignment]
    place.stock(a_file("a"), a_file("b"), a_file("large", 50), a_file("c"))
    place.pass_time(10.0)

    assert begun == [("a", 0.0), ("b", 0.0), ("large", 1.0), ("c", 2.0)]
    assert place.left() == 0
