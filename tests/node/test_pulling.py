"""A node with nothing to run asks a keeper; a keeper gives its pool away."""

from typing import Any

from dataward.model.events import Occasion, TaskPlaced
from dataward.model.messages import Ask
from dataward.model.operations import Enqueue, LetGo, OutputFile, QueueEntry, Shelf
from dataward.model.workflow import FileId, TaskId
from dataward.node.pulling import Pulling, PullMover
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, the first of three keepers, whose mover runs."""

    def __init__(self, *, nodes: int = 3, cores: int = 2, **settings: Any) -> None:
        super().__init__(nodes=nodes, cores=cores, staging_ahead=0)
        for node in self.world.nodes:
            self.join(node)
        self.mover: PullMover = Pulling(**settings).at(self.parts)
        for loop in self.mover.loops():
            self.start(loop)

    def keeps(self, *tasks: str) -> None:
        """These tasks, the first most urgent, come into the pool."""
        self.hold(*(a_task(task) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.put(a_queue_entry(task, float(priority), shelf=Shelf.POOLED))

    def have_file(self, file: str) -> None:
        """A task has written this file here."""
        self.depot.keep_outputs(TaskId(f"maker of {file}"), [OutputFile(FileId(file), 10)])

    def evict(self, *files: str) -> None:
        for file in files:
            self.have_file(file)
            self.depot.drop(FileId(file))

    def hears(self, *questions: Ask) -> None:
        for question in questions:
            self.mover.on_message(question)
        self.pass_time()

    def given(self) -> dict[str, list[str]]:
        return {op.node: [entry.task for entry in op.entries] for op in self.asked(Enqueue)}


def test_a_hungry_node_asks_the_first_keeper_for_as_many_tasks_as_it_can_begin() -> None:
    place = Place(nodes=3, cores=2)
    place.world.nodes.become(["n1", "n2", "n0"])

    place.state.queue.hungry.set()
    place.pass_time()

    assert place.sent(Ask) == [("n1", Ask("n0", 2))]


def test_a_hungry_node_asks_for_one_task_even_if_it_may_begin_none() -> None:
    """It became hungry when it might begin more: a slow task has ended since."""
    place = Place(nodes=2, cores=1)
    place.world.nodes.become(["n1", "n0"])
    fiber = place.kernel.spawn(place.wait_for_ever())
    place.state.attempts.begin(a_queue_entry("t"), fiber)

    place.state.queue.hungry.set()
    place.pass_time()

    assert place.sent(Ask) == [("n1", Ask("n0", 1))]


def test_a_node_that_was_given_nothing_asks_ever_more_keepers_then_all_again_more_rarely() -> None:
    place = Place(ask_seconds_min=1.0, ask_seconds_max=2.0)
    place.world.nodes.become(["n1", "n2", "n3", "n4", "n0"])
    place.state.queue.hungry.set()

    asked = []
    for second in range(7):
        place.pass_time(1.0 if second else 0.0)
        asked.append([node for node, _ in place.sent(Ask)])
        place.network.sent.clear()

    lap = ["n1", "n2", "n3"]  # n4 is no keeper
    assert asked == [["n1"], ["n2", "n3"], lap, [], lap, [], lap]


def test_a_node_with_work_asks_nobody() -> None:
    place = Place()

    place.pass_time(100.0)

    assert place.sent(Ask) == []


def test_a_node_that_drains_asks_nobody() -> None:
    place = Place()
    place.world.nodes.become(["n1", "n0"])
    place.state.drain()

    place.state.queue.hungry.set()
    place.pass_time(100.0)

    assert place.sent(Ask) == []


def test_a_node_that_has_asked_several_takes_its_questions_back_when_it_has_a_task() -> None:
    place = Place(ask_seconds_min=1.0)
    place.world.nodes.become(["n1", "n2", "n3", "n0"])
    place.state.queue.hungry.set()
    place.pass_time(1.0)
    place.network.sent.clear()

    place.state.queue.put(a_queue_entry("a"))
    place.pass_time()

    assert place.sent(Ask) == [(node, Ask("n0", 0)) for node in ("n1", "n2", "n3")]


def test_a_node_that_has_asked_one_keeper_need_not_take_its_question_back() -> None:
    place = Place(ask_seconds_min=1.0)
    place.world.nodes.become(["n1", "n2", "n3", "n0"])
    place.state.queue.hungry.set()
    place.pass_time()

    place.state.queue.put(a_queue_entry("a"))
    place.pass_time()

    assert place.sent(Ask) == [("n1", Ask("n0", 2))]


def test_a_question_taken_back_is_not_answered() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n1", 0))

    place.keeps("a")
    place.pass_time()

    assert place.given() == {}


def test_who_asks_says_what_was_evicted_until_it_is_given_a_task() -> None:
    place = Place(ask_seconds_min=1.0)
    place.world.nodes.become(["n1", "n2", "n3", "n0"])
    place.evict("f", "g")
    place.state.queue.hungry.set()
    place.pass_time()
    place.evict("h")
    place.pass_time(1.0)

    place.state.queue.put(a_queue_entry("a"))
    place.pass_time()
    place.state.queue.take()
    place.state.queue.hungry.set()
    place.pass_time()

    told = [question.evicted for _, question in place.sent(Ask) if question.tasks]
    # Whoever gave the task may have heard the first question only.
    assert told == [("f", "g"), ("f", "g", "h"), ("f", "g", "h"), ("h",)]


def test_what_was_evicted_and_has_come_again_is_not_told() -> None:
    place = Place()
    place.world.nodes.become(["n1", "n0"])
    place.evict("f", "g")
    place.have_file("f")

    place.state.queue.hungry.set()
    place.pass_time()

    assert [question.evicted for _, question in place.sent(Ask)] == [("g",)]


def test_a_keeper_runs_a_task_of_its_own_pool_without_asking_anybody() -> None:
    place = Place()
    place.keeps("a")

    place.state.queue.hungry.set()
    place.pass_time()

    assert place.sent(Ask) == []
    assert place.given() == {}  # the store has it at this node already
    assert place.state.queue.take() == a_queue_entry("a", 0.0, shelf=Shelf.KEPT)
    assert "a" not in place.state.pool
    assert "a" in place.state.identity.holdings
    assert [(e.task, e.node, e.occasion) for e in place.told(TaskPlaced)] == [
        ("a", "n0", Occasion.ASKED_FOR)
    ]


def test_who_asks_first_is_given_first_and_the_most_urgent() -> None:
    place = Place()
    place.keeps("a", "b", "c", "d")

    place.hears(Ask("n2", 2), Ask("n1", 1))

    assert place.given() == {"n2": ["a", "b"], "n1": ["c"]}
    assert list(place.state.pool.changes().went) == []
    assert "d" in place.state.pool


def test_what_is_given_is_kept_by_who_gets_it_and_let_go_of_here() -> None:
    place = Place()
    place.keeps("a")

    place.hears(Ask("n1", 1))

    assert place.asked(Enqueue)[0].entries == (a_queue_entry("a", 0.0, shelf=Shelf.KEPT),)
    assert place.told(TaskPlaced)[0].occasion is Occasion.ASKED_FOR
    (let_go,) = [op for op in place.state.outbox.take() if isinstance(op, LetGo)]
    assert [task for task, _ in let_go.tasks] == ["a"]


def test_a_question_is_remembered_until_there_is_a_task() -> None:
    place = Place(ask_seconds_max=5.0)
    place.hears(Ask("n1", 1))
    place.pass_time(9.0)

    place.keeps("a")
    place.pass_time()

    assert place.given() == {"n1": ["a"]}


def test_a_question_is_not_remembered_for_ever() -> None:
    place = Place(ask_seconds_max=5.0)
    place.hears(Ask("n1", 1))
    place.pass_time(11.0)

    place.keeps("a")
    place.pass_time()

    assert place.given() == {}
    assert "a" in place.state.pool


def test_a_node_that_asks_twice_is_given_once() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n1", 1))

    place.keeps("a", "b")
    place.pass_time()

    assert place.given() == {"n1": ["a"]}


def test_what_has_left_the_pool_is_not_given() -> None:
    place = Place()
    place.keeps("a", "b", "c")
    place.hears(Ask("n2", 1))
    place.log.clear()
    place.state.remove("b", 1)

    place.hears(Ask("n1", 2))

    assert place.given() == {"n1": ["c"]}


def test_claimed_tasks_go_to_the_pool_or_the_queue_as_their_shelf_says() -> None:
    place = Place()
    entries: list[QueueEntry] = [
        a_queue_entry("pooled", shelf=Shelf.POOLED), a_queue_entry("kept", shelf=Shelf.KEPT),
    ]  # fmt: skip

    for entry in entries:
        place.state.put(entry)

    assert "pooled" in place.state.pool
    assert "kept" in place.state.queue
    assert place.state.knows("pooled")


# --- when keepers change -------------------------------------------------------------------------


def test_a_node_that_is_no_keeper_any_more_sends_its_pool_to_the_first_keeper() -> None:
    place = Place(nodes=3)
    place.keeps("a", "b")

    place.world.nodes.become(["n5", "n6", "n7", "n0"])
    place.pass_time(1.0)

    assert place.given() == {"n5": ["a", "b"]}
    assert all(e.shelf is Shelf.POOLED for op in place.asked(Enqueue) for e in op.entries)
    assert {event.occasion for event in place.told(TaskPlaced)} == {Occasion.LEFT}
    assert not place.state.pool
    assert not place.state.identity.holdings


def test_what_comes_into_the_pool_of_a_node_that_is_no_keeper_goes_on() -> None:
    place = Place(nodes=3)
    place.world.nodes.become(["n5", "n6", "n7", "n0"])
    place.pass_time()

    place.keeps("a")
    place.pass_time(1.0)

    assert place.given() == {"n5": ["a"]}


def test_a_keeper_that_stays_one_keeps_its_pool() -> None:
    place = Place(nodes=3)
    place.keeps("a")

    place.world.nodes.become(["n5", "n6", "n0"])
    place.pass_time(1.0)

    assert place.given() == {}
    assert list(place.state.pool.tasks()) == ["a"]
