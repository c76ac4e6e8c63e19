"""Choosers that look at data learn it from the store, from what they give, and from evictions."""

from random import Random

from dataward.model.operations import AddCopies, Copy, InputFile, Look, Notify, Submit
from dataward.model.workflow import FileId, TaskId
from dataward.node.data_choosers import BestSuited, MostCached
from dataward.node.pool import Changes
from dataward.node.weights import Metric
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A keeper with a chooser."""

    def __init__(self, *, window: int = 0, metric: Metric = Metric.REST) -> None:
        super().__init__()
        self.chooser: BestSuited | MostCached = (
            MostCached(self.client, window)
            if window
            else BestSuited(self.client, metric, 1, Random(1))
        )

    def comes(self, task: str, reads: str, **sizes: int) -> None:
        """A task comes into the pool that reads these files, of 10 bytes unless said otherwise."""
        inputs = tuple(InputFile(FileId(f), sizes.get(f, 10), TaskId("")) for f in reads)
        self.have(Submit(a_task(task, inputs=inputs)))
        self.do(self.chooser.update(Changes([a_queue_entry(task)], [])))

    def is_at(self, node: str, *files: str) -> None:
        self.have(*(AddCopies(TaskId(f), (Copy(FileId(f), node),)) for f in files))


def test_a_node_is_given_the_task_that_lacks_the_fewest_files_there() -> None:
    place = Place()
    place.is_at("n1", "a", "b")
    place.comes("far", "de")
    place.comes("half", "ac")
    place.comes("near", "abd")

    assert [place.chooser.choose("n1") for _ in range(3)] == ["half", "near", "far"]


def test_a_node_has_what_the_tasks_read_that_it_was_given() -> None:
    place = Place(metric=Metric.OVERLAP)
    for task, files in (("s", "ab"), ("t", "cd"), ("u", "bc"), ("v", "ax")):
        place.comes(task, files)

    assert [place.chooser.choose("n1") for _ in range(2)] == ["s", "u"]
    assert place.chooser.choose("n2") == "t"
    assert place.chooser.choose("n2") == "v"


def test_evicted_files_count_no_more() -> None:
    place = Place(metric=Metric.OVERLAP)
    place.is_at("n1", "a")
    place.comes("other", "b")
    place.comes("here", "a")

    place.chooser.on_evicted("n1", (FileId("a"),))

    assert place.chooser.choose("n1") == "other"


def test_what_a_parent_wrote_is_where_its_notice_says() -> None:
    place = Place(metric=Metric.OVERLAP)
    place.have(Submit(a_task("other")), Submit(a_task("child", reads=["a"], made_by="parent")))
    place.have(Notify(TaskId("child"), TaskId("parent"), 1, copies=(Copy(FileId("a"), "n2"),)))

    came = [a_queue_entry("other"), a_queue_entry("child")]
    place.do(place.chooser.update(Changes(came, [])))

    assert place.chooser.choose("n2") == "child"


def test_the_store_is_asked_once_about_a_file_that_many_read() -> None:
    place = Place()

    place.comes("s", "ab")
    place.comes("t", "ab")

    assert [look.task for look in place.asked(Look)] == ["s", "a", "b", "t"]


def test_a_task_that_has_left_the_pool_is_not_chosen() -> None:
    place = Place()
    place.is_at("n1", "a")
    place.comes("left", "a")
    place.comes("stays", "b")

    place.do(place.chooser.update(Changes([], [TaskId("left")])))

    assert place.chooser.choose("n1") == "stays"


def test_a_task_that_the_store_has_forgotten_can_be_given_all_the_same() -> None:
    place = Place()

    place.do(place.chooser.update(Changes([a_queue_entry("forgotten")], [])))

    assert place.chooser.choose("n1") == "forgotten"


def test_with_data_diffusion_a_node_is_given_the_task_with_the_most_bytes_there() -> None:
    place = Place(window=10)
    place.is_at("n1", "a", "b", "c")
    place.comes("two small ones", "ab")
    place.comes("a large one", "cd", c=100, d=1000)

    assert place.chooser.choose("n1") == "a large one"


def test_with_data_diffusion_a_node_without_the_data_is_given_the_first_task() -> None:
    place = Place(window=10)
    place.comes("first", "a")
    place.comes("second", "b")

    assert place.chooser.choose("n1") == "first"


def test_beyond_the_window_nothing_is_looked_at() -> None:
    place = Place(window=2)
    place.is_at("n1", "c")
    for task, file in (("s", "a"), ("t", "b"), ("u", "c")):
        place.comes(task, file)

    assert [place.chooser.choose("n1") for _ in range(3)] == ["s", "u", "t"]
