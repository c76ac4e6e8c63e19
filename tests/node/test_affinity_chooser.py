"""A chooser by a plan: a node's own line first, then replicas, by storage affinity."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.operations import AddCopies, Copy, InputFile, Submit
from dataward.model.workflow import FileId, TaskId
from dataward.node.affinity_chooser import AffinityChooser
from dataward.node.pool import Changes
from node.fake_world import FakeWorld, a_queue_entry, a_task

NODES = ("n0", "n1", "n2")


class Place(FakeWorld):
    """A keeper with a chooser."""

    def __init__(self) -> None:
        super().__init__()
        self.chooser = AffinityChooser(self.client)

    def comes(
        self, task: str, reads: str = "", *, to: str = "n0", priority: float = 1.0, **sizes: int
    ) -> None:
        """A task planned for ``to`` comes; it reads files of 10 bytes unless said otherwise."""
        inputs = tuple(InputFile(FileId(f), sizes.get(f, 10), TaskId("")) for f in reads)
        self.have(Submit(a_task(task, inputs=inputs, preferred=to, priority=priority)))
        self.do(self.chooser.update(Changes([a_queue_entry(task)], [])))

    def goes(self, task: str) -> None:
        self.do(self.chooser.update(Changes([], [TaskId(task)])))

    def is_at(self, node: str, *files: str) -> None:
        self.have(*(AddCopies(TaskId(f), (Copy(FileId(f), node),)) for f in files))

    def replicate(self, node: str) -> str | None:
        task = self.chooser.replica(node)
        if task is not None:
            self.chooser.give(task, node)
        return task


def test_a_node_is_given_the_tasks_planned_for_it_the_most_urgent_first() -> None:
    place = Place()
    place.comes("late", to="n1", priority=3.0)
    place.comes("other", to="n2", priority=1.0)
    place.comes("soon", to="n1", priority=2.0)

    assert [place.chooser.choose("n1") for _ in range(3)] == ["soon", "late", None]
    assert place.chooser.choose("n0") is None


def test_a_task_that_has_left_the_pool_is_not_chosen_and_not_replicated() -> None:
    place = Place()
    place.comes("t", to="n1")

    place.goes("t")

    assert place.chooser.choose("n1") is None
    assert place.chooser.replica("n2") is None


def test_the_replica_is_of_the_task_with_the_most_bytes_at_the_node() -> None:
    place = Place()
    place.is_at("n1", "a", "b", "c")
    place.comes("two small ones", "ab")
    place.comes("a large one", "cd", c=100)
    place.comes("none", "e")

    assert place.replicate("n1") == "a large one"


def test_a_node_has_what_the_tasks_read_that_it_was_given() -> None:
    place = Place()
    place.comes("first", "ab", to="n1")
    place.comes("near", "bc", to="n0")
    place.comes("far", "de", to="n0")

    assert place.chooser.choose("n1") == "first"
    assert place.replicate("n1") == "near"


def test_evicted_files_count_no_more() -> None:
    place = Place()
    place.is_at("n1", "a", "b")
    place.comes("s", "a")
    place.comes("t", "b")

    place.chooser.on_evicted("n1", (FileId("b"),))

    assert place.replicate("n1") == "s"


def test_of_equal_affinities_the_task_that_came_last_is_replicated() -> None:
    place = Place()
    place.is_at("n1", "a")
    for task in ("s", "t", "u"):
        place.comes(task, "a")

    assert [place.replicate("n1") for _ in range(4)] == ["u", "t", "s", None]


def test_a_node_that_has_nothing_of_any_task_helps_the_longest_line_from_its_end() -> None:
    place = Place()
    for task in ("a", "b", "c"):
        place.comes(task, to="n0")
    for task in ("s", "t", "u", "v"):
        place.comes(task, to="n2")
    place.chooser.choose("n2")

    assert place.replicate("n1") == "c"  # both lines have three; n0 is the first
    place.goes("c")
    assert place.replicate("n1") == "v"


def test_what_runs_nowhere_is_replicated_before_what_runs() -> None:
    place = Place()
    place.is_at("n1", "a")
    place.comes("runs", "a", to="n0")
    place.comes("waits", "b", to="n0")
    assert place.chooser.choose("n0") == "runs"

    assert [place.replicate("n1") for _ in range(3)] == ["waits", "runs", None]


def test_what_the_fewest_nodes_run_is_replicated_first_then_what_has_most_bytes_there() -> None:
    place = Place()
    place.is_at("n2", "a", "b", "c")
    for task, files in (("twice", "abc"), ("once", "a"), ("once too", "ab")):
        place.comes(task, files, to="n0")
        assert place.chooser.choose("n0") == task
    place.chooser.give(TaskId("twice"), "n1")

    assert [place.replicate("n2") for _ in range(3)] == ["once too", "once", "twice"]


def test_a_replicated_task_still_waits_for_the_node_it_was_planned_for() -> None:
    place = Place()
    place.comes("t", to="n0")

    assert place.replicate("n1") == "t"
    assert place.chooser.choose("n0") == "t"
    assert place.chooser.runner_of(TaskId("t")) == "n1"
    assert list(place.chooser.given) == ["t"]


def test_a_task_that_left_its_line_is_not_chosen_but_remembered() -> None:
    place = Place()
    place.comes("t", to="n0")
    place.chooser.give(TaskId("t"), "n1")

    place.chooser.leave(TaskId("t"))

    assert place.chooser.choose("n0") is None
    assert list(place.chooser.given) == ["t"]


def test_a_task_that_may_have_no_more_replicas_waits_for_its_own_node_only() -> None:
    place = Place()
    place.comes("t", to="n0")
    place.replicate("n1")

    place.chooser.close(TaskId("t"))

    assert place.chooser.replica("n2") is None
    assert list(place.chooser.given) == ["t"]
    assert place.chooser.runner_of(TaskId("t")) == "n1"
    assert place.chooser.choose("n0") == "t"
    place.chooser.forget(TaskId("t"))
    assert not place.chooser.given


def test_a_task_that_ended_is_forgotten() -> None:
    place = Place()
    place.comes("t", to="n0")
    place.replicate("n1")

    place.chooser.forget(TaskId("t"))

    assert place.chooser.choose("n0") is None
    assert place.chooser.replica("n2") is None
    assert not place.chooser.given


def test_a_task_that_is_in_the_pool_again_can_be_given_to_everybody_again() -> None:
    place = Place()
    place.comes("t", to="n0")
    place.chooser.choose("n0")

    place.comes("t", to="n0")

    assert not place.chooser.given
    assert place.replicate("n0") == "t"


def test_a_task_that_the_store_has_forgotten_is_in_nobodys_line_but_can_be_asked_after() -> None:
    place = Place()

    place.do(place.chooser.update(Changes([a_queue_entry("forgotten")], [])))

    assert [place.chooser.choose(node) for node in NODES] == [None] * 3
    assert place.replicate("n1") == "forgotten"


# --- any history ---------------------------------------------------------------------------------

FILES = "abcde"
SIZES = {file: 10 ** (2 * place) for place, file in enumerate(FILES)}  # all sums are different


class Naive:
    """Affinities from nothing but what nodes were given and evicted."""

    def __init__(self) -> None:
        self.reads: dict[str, str] = {}
        self.runs: dict[str, list[str]] = {}
        self.has: dict[str, set[str]] = {node: set() for node in NODES}

    def give(self, task: str, node: str) -> None:
        self.runs[task].append(node)
        self.has[node] |= set(self.reads[task])

    def affinity(self, task: str, node: str) -> int:
        return sum(SIZES[file] for file in self.reads[task] if file in self.has[node])

    def best(self, node: str) -> set[tuple[int, int]]:
        """How many nodes run the task to replicate, and its affinity; empty if there is none."""
        costs = {
            (len(nodes), -self.affinity(task, node))
            for task, nodes in self.runs.items()
            if node not in nodes
        }
        return {min(costs)} if costs else set()


some_node = st.sampled_from(NODES)
some_files = st.sets(st.sampled_from(FILES)).map(lambda files: "".join(sorted(files)))
histories = st.lists(
    st.one_of(
        st.tuples(st.just("come"), some_files, some_node),
        st.tuples(st.just("choose"), some_node),
        st.tuples(st.just("replicate"), some_node),
        st.tuples(st.just("evict"), some_files, some_node),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(history=histories)
def test_every_replica_is_one_that_computing_all_affinities_anew_allows(
    history: list[tuple[str, ...]],
) -> None:
    place, naive = Place(), Naive()
    sizes: Mapping[str, int] = SIZES
    for number, (what, *words) in enumerate(history):
        if what == "come":
            task = f"t{number:02}"
            naive.reads[task], naive.runs[task] = words[0], []
            place.comes(task, words[0], to=words[1], priority=float(number), **sizes)
        elif what == "choose":
            chosen = place.chooser.choose(words[0])
            if chosen is not None:
                naive.give(chosen, words[0])
        elif what == "evict":
            naive.has[words[1]] -= set(words[0])
            place.chooser.on_evicted(words[1], tuple(FileId(f) for f in words[0]))
        elif what == "end" and naive.runs:
            task = sorted(naive.runs)[int(words[0]) % len(naive.runs)]
            del naive.runs[task]
            place.chooser.forget(TaskId(task))
        elif what == "replicate":
            node, best = words[0], naive.best(words[0])
            picked = place.replicate(node)
            found = {(len(naive.runs[picked]), -naive.affinity(picked, node))} if picked else set()
            assert found == best
            if picked:
                naive.give(picked, node)


@pytest.mark.parametrize("node", NODES)
def test_without_tasks_nothing_is_given(node: str) -> None:
    place = Place()

    assert place.chooser.choose(node) is None
    assert place.chooser.replica(node) is None
