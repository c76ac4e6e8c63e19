"""Where a task should run: least to move, then least to do, then the lowest id."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import (
    AddCopies,
    Copy,
    Enqueue,
    InputFile,
    Join,
    Probe,
    ReportLoad,
    Submit,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.homes import (
    STRANGERS,
    AdageHome,
    Candidate,
    Home,
    Homes,
    View,
    best_node,
    candidates_for,
    missing_bytes,
)
from node.fake_world import ARule, FakeWorld, a_queue_entry, a_task


def a_file(id: str, size_bytes: int) -> InputFile:
    return InputFile(FileId(id), size_bytes, TaskId(f"maker of {id}"))


def a_copy(file: str, node: str) -> Copy:
    return Copy(FileId(file), node)


BIG, SMALL = a_file("big", 100), a_file("small", 1)


def test_the_node_that_has_to_wait_least_for_files_is_best() -> None:
    assert best_node([Candidate("a", 100, 0.0), Candidate("b", 1, 99.0)]) == "b"


def test_equal_waits_go_to_the_less_loaded() -> None:
    assert best_node([Candidate("a", 5, 2.0), Candidate("b", 5, 1.0)]) == "b"


def test_equal_waits_and_loads_go_to_the_lowest_id() -> None:
    assert best_node([Candidate(node, 5, 1.0) for node in ("c", "a", "b")]) == "a"


def test_bytes_held_need_not_be_moved() -> None:
    assert missing_bytes([BIG, SMALL], {"big"}) == 1
    assert missing_bytes([BIG, SMALL], ()) == 101
    assert missing_bytes([], {"big"}) == 0


def test_every_node_asked_is_a_candidate_whatever_it_holds() -> None:
    copies = [a_copy("big", "a"), a_copy("small", "b"), a_copy("small", "a"), a_copy("big", "gone")]

    found = candidates_for([BIG, SMALL], copies, {"b": 2.0, "a": 1.0, "c": 0.0})

    assert found == [Candidate("b", 100, 2.0), Candidate("a", 0, 1.0), Candidate("c", 101, 0.0)]


def test_a_committed_file_counts_with_its_true_size_and_others_with_the_estimate() -> None:
    copies = [Copy(FileId("big"), "a", 7, "its digest")]

    found = candidates_for([BIG, SMALL], copies, {"a": 0.0, "b": 0.0})

    assert found == [Candidate("a", 1, 0.0), Candidate("b", 7 + 1, 0.0)]


candidates = st.lists(
    st.builds(Candidate, st.sampled_from("abcdef"), st.integers(0, 2), st.sampled_from([0.0, 1.0])),
    min_size=1,
    unique_by=lambda candidate: candidate.node,
)


@given(candidates, st.randoms())
def test_the_order_in_which_candidates_are_listed_does_not_matter(
    listed: list[Candidate], random: object
) -> None:
    shuffled = list(listed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert best_node(shuffled) == best_node(listed)


# --- ADAGE's rule --------------------------------------------------------------------------------

UP = {"n0": 0.0, "n1": 0.0}
SEARCHING = [Occasion.ORPHANED, Occasion.REOPENED, Occasion.GIVEN]
each_search = pytest.mark.parametrize("occasion", SEARCHING)


def a_standing(
    task: str = "t", preferred: str = "n9", *, holders: Mapping[str, str] | None = None
) -> Standing:
    """A ready task of five seconds that reads one big file; ``holders`` say who has which file."""
    copies = tuple(a_copy(file, node) for node, file in (holders or {}).items())
    return Standing(
        TaskId(task), TaskState.READY, 0, preferred, seconds=5.0, inputs=(BIG,), input_copies=copies
    )


def a_view(loads_seconds: Mapping[str, float], nodes: int = 3) -> View:
    return View("n0", [f"n{i}" for i in range(nodes)], loads_seconds, Random(1))


def test_a_task_that_became_ready_goes_to_its_preferred_node_dead_or_alive() -> None:
    task = a_standing(preferred="n9", holders={"n1": "big"})

    assert AdageHome().choose(task, Occasion.READY, a_view({})) == Home("n9")
    assert AdageHome().choose(task, Occasion.READY, a_view(UP)) == Home("n9")


@each_search
def test_a_task_goes_to_its_preferred_node_if_that_is_up(occasion: Occasion) -> None:
    task = a_standing(preferred="n1", holders={"n0": "big"})

    assert AdageHome().choose(task, occasion, a_view(UP)) == Home("n1")


@each_search
def test_with_its_preferred_node_down_a_task_goes_where_least_must_be_moved(
    occasion: Occasion,
) -> None:
    task = a_standing(preferred="n9", holders={"n1": "big", "n8": "big"})

    home = AdageHome().choose(task, occasion, a_view(UP))

    assert home == Home("n1", (("n0", 100.0), ("n1", 0.0)))


@each_search
def test_with_no_node_up_a_task_goes_to_its_preferred_node(occasion: Occasion) -> None:
    assert AdageHome().choose(a_standing(preferred="n9"), occasion, a_view({})) == Home("n9")


def test_a_task_that_has_no_room_here_goes_to_any_other_node_even_if_this_one_is_preferred() -> (
    None
):
    view = a_view(UP, nodes=3)
    task = a_standing(preferred="n0")

    homes = {AdageHome().choose(task, Occasion.NO_ROOM, view).node for _ in range(50)}

    assert homes == {"n1", "n2"}


# --- asking around -------------------------------------------------------------------------------


class Asked:
    """A rule that sends everything to n1 and remembers what it was told."""

    def __init__(self, *asks: Occasion) -> None:
        self.views: list[dict[str, float]] = []
        self.rule = ARule(self._choose, frozenset(asks))

    def _choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        self.views.append(dict(view.loads_seconds))
        return Home("n1")


def up(world: FakeWorld, **loads_seconds: float) -> None:
    """These nodes are up, with so much work waiting at each."""
    for node, load in loads_seconds.items():
        world.have(Join(node, 1, 1e9), ReportLoad(node, load))


def test_a_rule_that_asks_for_no_loads_costs_no_call() -> None:
    asked = Asked(Occasion.ORPHANED)
    world = FakeWorld(rule=asked.rule)
    up(world, n1=1.0)

    homes = world.do(world.homes.find([a_standing()], Occasion.READY))

    assert homes == [Home("n1")]
    assert asked.views == [{}]
    assert world.store.calls == []


def test_with_no_task_nobody_is_asked() -> None:
    world = FakeWorld()

    assert world.do(world.homes.find([], Occasion.ORPHANED)) == []
    assert world.store.calls == []


def test_a_rule_is_told_who_is_up_and_how_loaded_and_what_waits_here() -> None:
    asked = Asked(Occasion.ORPHANED)
    world = FakeWorld(nodes=4, rule=asked.rule)
    up(world, n1=4.0, n2=2.0)
    world.have(Enqueue("n2", (a_queue_entry("queued", seconds=1.5),)))
    world.state.queue.put(a_queue_entry("here", seconds=7.0))
    task = a_standing(preferred="n1", holders={"n2": "big", "n3": "big"})

    world.do(world.homes.find([task], Occasion.ORPHANED))

    assert asked.views == [{"n0": 7.0, "n1": 4.0, "n2": 3.5}]  # n3 never joined


def test_a_client_has_no_queue_and_is_no_candidate_itself() -> None:
    asked = Asked(Occasion.READY)
    world = FakeWorld()
    up(world, n1=4.0)
    homes = Homes("the client", world.world.nodes, Random(1), world.client, asked.rule)

    world.do(homes.find([a_standing(preferred="n1")], Occasion.READY))

    assert asked.views == [{"n1": 4.0}]


def test_preferred_nodes_holders_and_a_few_strangers_are_asked_each_once() -> None:
    world = FakeWorld(nodes=100)
    tasks = [
        a_standing("a", "n1", holders={"n2": "big", "n3": "big"}),
        a_standing("b", "n1", holders={"n3": "big", "left the cluster": "big"}),
    ]

    world.do(world.homes.find(tasks, Occasion.ORPHANED))

    (probes,) = world.store.calls
    asked = [probe.node for probe in probes if isinstance(probe, Probe)]
    assert asked[:3] == ["n1", "n2", "n3"]
    assert len(asked) == len(set(asked)) <= 3 + STRANGERS
    assert len(asked) > 3
    assert "left the cluster" not in asked
    assert "n0" not in asked


def test_a_rule_that_knows_the_inputs_says_itself_which_holders_are_asked() -> None:
    asked = Asked(Occasion.ORPHANED)
    asked.rule.needs_inputs = True
    world = FakeWorld(nodes=100, rule=asked.rule)
    spec = a_task(reads=["popular"])
    everywhere = tuple(Copy("popular", node) for node in world.world.nodes)
    world.have(Submit(spec), AddCopies("popular", everywhere))

    world.do(world.homes.find([a_standing("t", "n1")], Occasion.ORPHANED))

    probed = world.asked(Probe)
    assert probed[0].node == "n1"
    assert len(probed) <= 1 + STRANGERS


def test_a_rule_that_needs_the_inputs_is_told_of_every_place() -> None:
    told: list[Standing] = []
    world = FakeWorld()
    world.homes.rule = ARule(lambda task, *_: told.append(task) or Home("n1"), needs_inputs=True)
    spec = a_task(reads=["in"], size_bytes=7)
    world.have(Submit(spec), AddCopies("in", (Copy("in", "n1"), Copy("in", "n2"))))

    world.do(world.homes.find([Standing("t", TaskState.READY, 0, "n0")], Occasion.READY))

    assert [file.size_bytes for file in told[0].inputs] == [7]
    assert {copy.node for copy in told[0].input_copies} == {"n1", "n2"}
    assert told[0].preferred == "n0"


def test_a_node_does_not_ask_the_store_about_itself() -> None:
    world = FakeWorld(nodes=1)

    world.do(world.homes.find([a_standing(preferred="n0")], Occasion.ORPHANED))

    assert world.store.calls == []


def test_nodes_to_avoid_count_as_down_but_this_one_does_not() -> None:
    asked = Asked(Occasion.REOPENED)
    world = FakeWorld(rule=asked.rule)
    up(world, n1=1.0, n2=2.0)
    task = a_standing(preferred="n1", holders={"n2": "big"})

    world.do(world.homes.find([task], Occasion.REOPENED, {"n0", "n1"}))

    assert asked.views == [{"n0": 0.0, "n2": 2.0}]


def test_each_task_placed_adds_to_the_load_that_the_next_is_weighed_by() -> None:
    asked = Asked(Occasion.ORPHANED)
    world = FakeWorld(rule=asked.rule)
    up(world, n1=1.0)

    world.do(world.homes.find([a_standing(t, "n1") for t in "abc"], Occasion.ORPHANED))

    assert [view["n1"] for view in asked.views] == [1.0, 6.0, 11.0]
    assert [view["n0"] for view in asked.views] == [0.0, 0.0, 0.0]


def test_a_home_that_is_not_up_is_still_a_home() -> None:
    world = FakeWorld(rule=Asked(Occasion.ORPHANED).rule)

    assert world.do(world.homes.find([a_standing()], Occasion.ORPHANED)) == [Home("n1")]


def test_equal_orphans_of_one_node_are_spread_over_those_that_are_up() -> None:
    world = FakeWorld(nodes=4)
    up(world, n1=0.0, n2=0.0)
    orphans = [a_standing(t, "n3", holders={"n1": "x", "n2": "x"}) for t in "abcdef"]

    homes = world.do(world.homes.find(orphans, Occasion.ORPHANED))

    assert [home.node for home in homes] == ["n0", "n1", "n2"] * 2


def test_a_node_is_alone_if_there_is_no_other_to_send_a_task_to() -> None:
    assert FakeWorld(nodes=1).homes.is_alone
    assert not FakeWorld(nodes=2).homes.is_alone


# --- nodes that have left ------------------------------------------------------------------------


class Preferring:
    """A rule that sends every task to the node that it prefers, as far as the rule is told."""

    def __init__(self) -> None:
        self.rule = ARule(lambda task, occasion, view: Home(task.preferred))


def test_a_task_whose_preferred_node_has_left_goes_to_the_same_stand_in_whoever_asks() -> None:
    world = FakeWorld(nodes=5, rule=Preferring().rule)
    client = Homes("the client", world.world.nodes, Random(9), world.client, world.rule)
    tasks = [a_standing(f"t{i}", preferred="n9") for i in range(50)]

    homes = world.do(world.homes.find(tasks, Occasion.READY))

    assert {home.node for home in homes} == {"n0", "n1", "n2", "n3", "n4"}
    assert world.do(client.find(tasks, Occasion.READY)) == homes


def test_a_task_whose_preferred_node_comes_back_goes_there() -> None:
    world = FakeWorld(nodes=3, rule=Preferring().rule)
    task = a_standing(preferred="n9")

    world.world.nodes.become(["n0", "n1", "n9"])

    assert world.do(world.homes.find([task], Occasion.READY)) == [Home("n9")]


def test_a_task_of_which_nobody_says_which_node_it_prefers_has_no_stand_in() -> None:
    world = FakeWorld(nodes=3, rule=Preferring().rule)

    assert world.do(world.homes.find([a_standing(preferred="")], Occasion.TAKEN)) == [Home("")]


def test_a_task_that_has_no_room_here_stays_if_all_other_nodes_have_left() -> None:
    task = a_standing(preferred="n0")

    assert AdageHome().choose(task, Occasion.NO_ROOM, a_view(UP, nodes=1)) == Home("n0")


def test_a_node_that_was_alone_is_not_once_another_has_come() -> None:
    world = FakeWorld(nodes=1)

    world.world.nodes.become(["n0", "n1"])

    assert not world.homes.is_alone
