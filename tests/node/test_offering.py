"""A node that is behind offers what waits and what runs late; whoever would be sooner gets it."""

from collections.abc import Collection
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.events import WorkGiven
from dataward.model.messages import Ask, Bid, Offer, OfferedTask
from dataward.model.operations import (
    Delivered,
    Enqueue,
    OutputFile,
    QueueEntry,
    Release,
    Remove,
    Replicate,
    ReportLoad,
    Shelf,
)
from dataward.node.doubling import first_to_end
from dataward.node.handing_over import as_moved
from dataward.node.offering import Offering, may_move, winners
from dataward.node.volunteering import TAKEN_SECONDS
from node.fake_world import FakeWorld, a_queue_entry, a_task

# --- decisions -----------------------------------------------------------------------------------


def a_bid(node: str, *times: tuple[float, float], places: int = 1) -> Bid:
    return Bid(node, 1, places, times, (0,) * len(times))


def entries(*tasks: str, spread: float = 0.0) -> list[QueueEntry]:
    return [a_queue_entry(task, spread=spread) for task in tasks]


def test_a_task_goes_to_the_node_that_would_start_it_first() -> None:
    bids = [a_bid("n1", (20.0, 30.0)), a_bid("n2", (5.0, 15.0))]

    assert winners({"t": 60.0}, bids, entries("t"), 0.5) == {"t": "n2"}


def test_a_task_stays_where_it_would_start_no_later() -> None:
    assert winners({"t": 10.0}, [a_bid("n1", (10.0, 20.0))], entries("t"), 0.5) == {}


def test_a_long_task_does_not_move_for_a_short_gain() -> None:
    assert winners({"t": 60.0}, [a_bid("n1", (20.0, 120.0))], entries("t"), 0.5) == {}


def test_nobody_is_given_more_than_it_has_places_for() -> None:
    bids = [a_bid("n1", (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), places=2)]

    assert winners(dict.fromkeys("abc", 60.0), bids, entries(*"abc"), 0.5) == {"a": "n1", "b": "n1"}


def test_where_the_best_node_has_no_place_left_the_next_best_is_given_the_task() -> None:
    bids = [a_bid("n1", (0.0, 1.0), (0.0, 1.0)), a_bid("n2", (5.0, 6.0), (5.0, 6.0))]

    assert winners({"a": 60.0, "b": 60.0}, bids, entries("a", "b"), 0.5) == {"a": "n1", "b": "n2"}


def test_equal_starts_go_to_the_lowest_id() -> None:
    bids = [a_bid("n2", (5.0, 6.0)), a_bid("n1", (5.0, 6.0))]

    assert winners({"t": 60.0}, bids, entries("t"), 0.5) == {"t": "n1"}


@pytest.mark.parametrize(("wait", "moves"), [(10.5, False), (10.6, True)])
def test_a_task_moves_for_half_its_run_time_and_half_a_second(wait: float, moves: bool) -> None:
    given = winners({"t": wait}, [a_bid("n1", (0.0, 20.0))], entries("t"), 0.5)

    assert bool(given) is moves


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=5),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=4),
)
def test_nothing_moves_to_where_it_would_start_later(
    waits: list[float], nodes: list[tuple[float, float]]
) -> None:
    order = [f"t{i}" for i in range(len(waits))]
    bids = [
        a_bid(f"n{i}", *[(start, start + run)] * len(waits), places=2)
        for i, (start, run) in enumerate(nodes)
    ]

    given = winners(dict(zip(order, waits, strict=True)), bids, entries(*order), 0.5)

    starts = {bid.node: bid.times[0][0] for bid in bids}
    for task, node in given.items():
        assert starts[node] < waits[order.index(task)]


def test_as_long_as_all_goes_as_estimated_nothing_may_move() -> None:
    assert not may_move(a_queue_entry(seconds=100.0), 0.0)
    assert may_move(a_queue_entry(seconds=100.0), 60.0)


@pytest.mark.parametrize("spread", [0.1, inf])
def test_what_was_planned_by_a_guess_may_always_move(spread: float) -> None:
    assert may_move(a_queue_entry(seconds=100.0, spread=spread), 0.0)


def test_what_is_not_where_or_when_it_was_planned_may_always_move_and_for_half_a_second() -> None:
    displaced = a_queue_entry(seconds=100.0, displaced=True)

    assert may_move(displaced, 0.0)
    assert winners({"t": 0.5}, [a_bid("n1", (0.0, 100.0))], [displaced], 0.5) == {}
    assert winners({"t": 0.6}, [a_bid("n1", (0.0, 100.0))], [displaced], 0.5) == {"t": "n1"}


def test_a_task_may_move_if_its_node_is_behind_by_five_seconds_and_a_tenth_of_its_run() -> None:
    entry = a_queue_entry(seconds=100.0)

    assert not may_move(entry, 15.0)
    assert may_move(entry, 15.1)


@pytest.mark.parametrize(("run", "moves"), [(85.0, False), (95.0, True), (200.0, True)])
def test_what_is_only_overdue_does_not_go_to_a_faster_node(run: float, moves: bool) -> None:
    bids = [a_bid("n1", (0.0, run))]

    given = winners({"t": 500.0}, bids, entries("t"), 0.5, late=("t",), bound={"t": 100.0})

    assert bool(given) is moves


def test_what_is_only_overdue_does_not_go_to_who_would_never_start_it() -> None:
    bids = [a_bid("n1", (inf, inf))]

    assert winners({"t": 500.0}, bids, entries("t"), 0.5, bound={"t": 100.0}) == {}


def test_what_was_planned_by_a_guess_moves_for_half_a_second() -> None:
    bids = [a_bid("n1", (20.0, 120.0))]

    assert winners({"t": 20.5}, bids, entries("t", spread=0.5), 0.5) == {}
    assert winners({"t": 20.6}, bids, entries("t", spread=0.5), 0.5) == {"t": "n1"}


def test_a_task_that_nobody_wants_leaves_the_place_to_the_next() -> None:
    bids = [a_bid("n1", (inf, inf), (0.0, 1.0))]

    assert winners({"a": inf, "b": 60.0}, bids, entries("a", "b"), 0.5) == {"b": "n1"}


def test_only_what_was_planned_with_care_stays_where_it_goes() -> None:
    assert as_moved(a_queue_entry(spread=0.0)).shelf is Shelf.KEPT
    assert as_moved(a_queue_entry(spread=0.5)).shelf is Shelf.SHARED


def test_the_node_that_ends_first_makes_the_backup() -> None:
    bids = [a_bid("n1", (0.0, 90.0)), a_bid("n2", (20.0, 50.0))]

    assert first_to_end(bids) == (50.0, "n2")
    assert first_to_end([]) is None


def test_a_node_that_would_never_rest_is_refused() -> None:
    with pytest.raises(SettingError, match="pause_seconds_min 0 would never rest"):
        Offering(pause_seconds_min=0.0)


# --- at a node -----------------------------------------------------------------------------------


class Place(FakeWorld):
    """Node n0, of four and with one core unless said otherwise, whose mover runs."""

    def __init__(self, *, nodes: int = 4, cores: int = 1, **settings: Any) -> None:
        super().__init__(nodes=nodes, cores=cores, backups_max=1)
        self.join()
        self.mover = Offering(**{"neighbours": 4, **settings}).at(self.parts)
        self.state.identity.join()

    def moves(self) -> None:
        for loop in self.mover.loops():
            self.start(loop)

    def waits(self, *tasks: str, spread: float = inf, latest_start: float = 1000.0) -> None:
        """These tasks wait here, each of ten seconds as far as is known."""
        specs = [a_task(task, estimated_seconds=10.0, estimated_spread=spread) for task in tasks]
        self.hold(*specs)
        for number, spec in enumerate(specs):
            priority = latest_start + number
            self.state.queue.put(a_queue_entry(spec.id, priority, seconds=10.0, spread=spread))

    def runs(
        self,
        task: str = "runs",
        spread: float = inf,
        seconds: float = 10.0,
        *,
        replica: bool = False,
    ) -> None:
        """This task runs here, and does not end."""
        spec = a_task(task, estimated_seconds=seconds, estimated_spread=spread, backups_max=1)
        self.hold(spec)
        entry = a_queue_entry(task, seconds=seconds, spread=spread)
        entry = msgspec.structs.replace(entry, replica=replica)
        self.state.attempts.begin(entry, self.kernel.spawn(self.wait_for_ever()))
        self.state.attempts.begun(spec.id, f"n0.1.{len(self.state.attempts)}")
        self.state.attempts.stage(spec.id)
        self.state.attempts.start(spec.id)

    def has_in_line(self, task: str, spread: float = inf) -> None:
        """This task has its inputs, and waits for a core."""
        spec = a_task(task, estimated_seconds=10.0, estimated_spread=spread, backups_max=1)
        attempt, _ = self.begin(spec)
        entry = a_queue_entry(task, seconds=10.0, spread=spread)
        self.state.attempts.begin(entry, self.kernel.spawn(self._in_line(spec.id)))
        self.pass_time()
        self.state.attempts.begun(spec.id, attempt)
        self.state.attempts.stage(spec.id)

    async def _in_line(self, task: str) -> None:
        try:
            await self.wait_for_ever()
        finally:
            self.state.attempts.end(task)

    def bid(self, node: str, start: float, end: float, number: int = 1, tasks: int = 1) -> None:
        self.mover.on_message(Bid(node, number, 1, ((start, end),) * tasks, (0,) * tasks))
        self.pass_time(1.0)

    def offered(self) -> list[tuple[str, ...]]:
        """The tasks of each offer, by what was sent to n1."""
        return [
            tuple(task.task for task in offer.tasks)
            for node, offer in self.sent(Offer)
            if node == "n1"
        ]


def test_tasks_that_wait_are_offered_to_others_the_most_urgent_first() -> None:
    place = Place()
    place.runs()
    place.waits("a", "b")

    place.moves()

    assert place.offered() == [("a", "b")]


def test_an_offer_says_who_offers_and_what_others_must_know_of_the_task() -> None:
    place = Place()
    place.runs()
    place.waits("a")

    place.moves()

    assert sorted(place.sent(Offer)) == [
        (node, Offer("n0", 1, (OfferedTask("a", 1000.0, 10.0, inf, "", ()),)))
        for node in ("n1", "n2", "n3")
    ]


def test_a_task_that_comes_is_offered_at_once() -> None:
    place = Place()
    place.runs()
    place.moves()

    place.waits("a")
    place.pass_time()

    assert place.offered() == [("a",)]


@pytest.mark.parametrize(
    ("tasks", "offered"), [(10, ("t0", "t1", "t9", "t8")), (3, ("t0", "t1", "t2"))]
)
def test_the_most_and_the_least_urgent_are_offered_each_once(
    tasks: int, offered: tuple[str, ...]
) -> None:
    place = Place(tasks_max=4)
    place.runs()
    place.waits(*(f"t{i}" for i in range(tasks)))

    place.moves()

    assert place.offered() == [offered]


def test_what_may_only_run_here_is_not_offered() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.state.queue.put(a_queue_entry("kept", 9.0, seconds=10.0, spread=inf, shelf=Shelf.KEPT))

    place.moves()

    assert place.offered() == [("a",)]


def test_a_task_that_could_start_at_once_is_not_offered() -> None:
    place = Place()
    place.waits("a", "b")

    place.moves()

    assert place.offered() == [("b",)]


@pytest.mark.parametrize(("start", "goes"), [(99.4, ["t9"]), (99.5, [])])
def test_the_least_urgent_task_waits_for_all_the_others(start: float, goes: list[str]) -> None:
    place = Place(tasks_max=4)
    place.runs()
    place.waits(*(f"t{i}" for i in range(10)))  # of ten seconds each, so that t9 waits for 100
    place.moves()

    place.bid("n1", start, start + 10.0, tasks=4)

    assert place.queue_of("n1") == goes


def test_what_is_in_line_for_a_core_goes_to_who_has_one() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.has_in_line("s")
    place.moves()
    assert place.offered() == [("s", "a")]

    place.bid("n1", 0.0, 1.0, tasks=2)

    assert [release.task for release in place.asked(Release)] == ["s"]
    assert place.queue_of("n1") == ["s"]
    assert "s" not in place.state.attempts
    assert "s" not in place.state.identity.holdings
    assert [delivered.task for delivered in place.asked(Delivered)] == ["s"]
    assert [event.tasks for event in place.told(WorkGiven)] == [("s",)]
    assert "a" in place.state.queue


def test_what_is_in_line_is_offered_even_if_nothing_else_waits() -> None:
    place = Place()
    place.runs()
    place.has_in_line("s")

    place.moves()

    assert place.offered() == [("s",)]


def test_what_got_its_core_while_others_bid_stays() -> None:
    place = Place()
    place.runs()
    place.has_in_line("s")
    place.moves()
    place.state.attempts.start("s")

    place.bid("n1", 0.0, 1.0)

    assert "s" in place.state.attempts
    assert place.queue_of("n1") == []
    assert place.asked(Release) == []


def test_what_has_ended_elsewhere_meanwhile_goes_nowhere() -> None:
    place = Place()
    place.runs()
    place.has_in_line("s")
    place.moves()
    place.have(Remove("s"))

    place.bid("n1", 0.0, 1.0)

    assert place.queue_of("n1") == []
    assert "s" not in place.state.identity.holdings


@pytest.mark.parametrize(
    ("cores", "overrun", "offered"),
    [(1, 5.9, []), (1, 6.1, [("a",)]), (2, 11.9, []), (2, 12.1, [("a",)])],
)
def test_a_node_is_behind_by_what_its_tasks_took_longer_for_each_core(
    cores: int, overrun: float, offered: list[tuple[str, ...]]
) -> None:
    place = Place(cores=cores)
    for core in range(cores):
        place.runs(f"runs {core}", spread=0.0)
    place.waits("a", spread=0.0)
    place.state.overrun_seconds = overrun

    place.moves()

    assert place.offered() == offered


def test_what_runs_overdue_puts_a_node_behind_too() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.waits("a", spread=0.0)
    place.pass_time(17.0)

    place.moves()

    assert ("a",) in place.offered()


def test_when_all_have_bid_nobody_is_waited_for() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.moves()

    for node in ("n1", "n2", "n3"):
        assert "a" in place.state.queue
        place.mover.on_message(Bid(node, 1, 1, ((3.0, 4.0),), (0,)))
        place.pass_time()

    assert "a" not in place.state.queue
    assert place.mover.loose_ends() == {"offers under way": 0}


def test_a_bid_that_comes_late_changes_nothing() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.moves()
    place.pass_time(0.3)

    place.bid("n1", 3.0, 4.0)

    assert "a" in place.state.queue


def test_after_a_gift_what_is_left_is_offered_soon() -> None:
    place = Place(pause_seconds_min=1.0)
    place.runs()
    place.waits("a", "b")
    place.moves()

    place.bid("n1", 3.0, 4.0, tasks=2)
    place.pass_time(0.3)

    assert place.offered() == [("a", "b"), ("b",)]


def test_what_came_while_bids_were_awaited_is_offered_soon() -> None:
    place = Place(pause_seconds_min=1.0, bid_seconds=0.2)
    place.runs()
    place.waits("a")
    place.moves()

    place.pass_time(0.1)
    place.waits("b")
    place.pass_time(1.2)

    assert place.offered() == [("a",), ("a", "b")]


def test_who_had_nothing_to_offer_for_a_while_offers_as_often_as_at_first() -> None:
    place = Place(pause_seconds_min=1.0, pause_seconds_max=64.0)
    place.runs(seconds=1e6)
    place.waits("a")
    place.moves()
    place.pass_time(60.0)
    place.state.queue.remove("a")
    place.pass_time(64.0)
    place.network.sent.clear()

    place.waits("b")
    place.pass_time(3.0)

    assert place.offered() == [("b",), ("b",)]


def test_a_gift_changes_the_load_that_others_are_told_of() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.state.outbox.load_told()
    place.moves()

    place.bid("n1", 3.0, 4.0)

    assert any(isinstance(op, ReportLoad) for op in place.state.outbox.take())


def test_a_task_goes_to_the_best_bidder() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.moves()

    place.bid("n1", 3.0, 4.0)

    assert place.queue_of("n1") == ["a"]
    assert "a" not in place.state.queue
    assert [event.tasks for event in place.told(WorkGiven)] == [("a",)]


def test_a_task_stays_if_nobody_would_be_sooner() -> None:
    place = Place()
    place.runs()
    place.waits("a")
    place.moves()

    place.bid("n1", 300.0, 310.0)

    assert "a" in place.state.queue
    assert place.queue_of("n1") == []


def test_a_node_that_runs_as_estimated_offers_nothing() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.waits("a", spread=0.0)

    place.moves()

    assert place.offered() == []


def test_offers_become_rarer_while_nobody_is_sooner() -> None:
    place = Place(pause_seconds_min=1.0, pause_seconds_max=8.0)
    place.runs(seconds=1e6)
    place.waits("a")

    place.moves()
    place.pass_time(40.0)

    assert 5 <= len(place.offered()) <= 8


def test_a_task_that_runs_late_is_backed_up_where_it_would_end_first() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(11.9)
    assert place.offered() == []

    place.pass_time(0.2)
    assert place.offered() == [("runs",)]
    place.bid("n1", 0.0, 10.0)

    assert place.asked(Replicate) == [Replicate("runs", "n0", "n1")]
    ((entry,),) = [op.entries for op in place.asked(Enqueue) if op.node == "n1"]
    assert entry.replica
    assert entry.shelf is Shelf.KEPT
    assert [(event.target, event.tasks) for event in place.told(WorkGiven)] == [("n1", ("runs",))]


def test_a_node_without_neighbours_waits_for_no_bids() -> None:
    place = Place(nodes=1)
    place.runs()
    place.waits("a")

    place.moves()

    assert place.mover.loose_ends() == {"offers under way": 0}


def test_a_node_that_was_alone_offers_once_another_has_come() -> None:
    place = Place(nodes=1)
    place.runs()
    place.waits("a")
    place.moves()
    place.pass_time(1000.0)
    assert place.sent(Offer) == []

    place.world.nodes.become(["n0", "n1"])
    place.pass_time(1.0)

    assert [node for node, _ in place.sent(Offer)] == ["n1"]


@pytest.mark.parametrize(("bidder", "is_given"), [("new", True), ("n1", False)])
def test_what_was_planned_goes_to_a_newcomer_though_all_goes_as_planned(
    bidder: str, is_given: bool
) -> None:
    place = Place(nodes=3)
    place.runs(spread=0.0)
    place.waits("a", "b", spread=0.0)
    place.moves()
    place.pass_time(5.0)
    assert place.sent(Offer) == []

    place.world.nodes.become(["n0", "n1", "n2", "new"])
    place.pass_time()
    place.bid(bidder, 0.0, 10.0, tasks=2)

    assert "new" in {node for node, _ in place.sent(Offer)}
    assert [op.node for op in place.asked(Enqueue)] == ["new"] * is_given


def test_a_task_that_is_reserved_goes_to_nobody_else() -> None:
    bids = [a_bid("n1", (0.0, 1.0)), a_bid("new", (5.0, 6.0))]

    assert winners({"t": 60.0}, bids, entries("t"), 0.5, {"t": ["new"]}) == {"t": "new"}
    assert winners({"t": 60.0}, bids[:1], entries("t"), 0.5, {"t": ["new"]}) == {}


def test_a_late_task_is_left_alone_if_nobody_would_end_sooner() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(12.1)

    place.bid("n1", 100.0, 110.0)

    assert place.asked(Replicate) == []


@pytest.mark.parametrize(("end", "is_backed_up"), [(12.0, True), (12.6, False)])
def test_a_late_task_is_backed_up_if_that_takes_no_longer_than_it_has_run(
    end: float, is_backed_up: bool
) -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(12.1)

    place.bid("n1", 0.0, end)

    assert bool(place.asked(Replicate)) is is_backed_up


def test_a_task_that_began_later_is_late_later() -> None:
    place = Place()
    place.pass_time(50.0)
    place.runs(spread=0.0)
    place.moves()

    place.pass_time(11.9)
    assert place.offered() == []
    place.pass_time(0.2)

    assert place.offered() == [("runs",)]


def test_a_short_task_is_left_alone_for_as_long_as_asking_and_moving_take() -> None:
    place = Place()
    place.runs(spread=0.0, seconds=0.01)
    place.moves()

    place.pass_time(0.49)
    assert place.offered() == []
    place.pass_time(0.02)

    assert place.offered() == [("runs",)]


def test_a_late_task_is_offered_once_for_each_of_its_runs() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()

    place.pass_time(100.0)
    assert place.offered() == [("runs",)]
    place.state.attempts.end("runs")
    place.runs("other", spread=0.0)
    place.pass_time()
    place.state.attempts.end("other")
    place.runs(spread=0.0)
    place.pass_time(100.0)

    assert place.offered() == [("runs",), ("runs",)]


def test_a_task_that_has_run_and_stores_its_outputs_is_not_late() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(10.0)

    place.state.attempts.finish_run("runs")
    place.pass_time(100.0)

    assert place.offered() == []


def test_a_late_task_that_has_run_when_bids_come_is_not_backed_up() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(12.1)

    place.state.attempts.finish_run("runs")
    place.bid("n1", 0.0, 1.0)

    assert place.asked(Replicate) == []


def test_a_node_is_not_behind_while_a_task_stores_its_outputs() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.waits("a", spread=0.0)
    place.state.attempts.finish_run("runs")
    place.moves()

    place.pass_time(100.0)

    assert place.offered() == []


def test_a_late_task_that_ends_while_bids_are_awaited_is_not_backed_up() -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(12.1)

    place.state.attempts.end("runs")
    place.bid("n1", 0.0, 1.0)

    assert place.asked(Replicate) == []


# --- bids ----------------------------------------------------------------------------------------


def an_offer(
    *inputs: tuple[str, int], seconds: float = 10.0, priority: float = 1.0, spread: float = 0.0
) -> Offer:
    return Offer("n3", 1, (OfferedTask("t", priority, seconds, spread, "", inputs),))


def test_an_idle_node_could_start_at_once() -> None:
    place = Place()

    place.mover.on_message(an_offer())

    assert place.sent(Bid) == [("n3", Bid("n0", 1, 1, ((0.0, 10.0),), (0,)))]


def test_a_busy_node_could_start_when_its_core_is_free() -> None:
    place = Place()
    place.runs(spread=0.0, seconds=60.0)
    place.pass_time(20.0)

    place.mover.on_message(an_offer())

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((40.0, 50.0),)


def test_a_busy_node_wants_no_task_of_which_nobody_knows_how_long_it_runs() -> None:
    place = Place()
    place.runs(spread=0.0, seconds=60.0)

    place.mover.on_message(an_offer(spread=0.5))

    assert place.sent(Bid) == [("n3", Bid("n0", 1, 0, ((inf, inf),), (0,)))]


def test_an_idle_node_wants_as_many_of_those_as_it_has_idle_cores() -> None:
    place = Place(cores=3)
    place.runs(spread=0.0, seconds=60.0)

    place.mover.on_message(an_offer(spread=0.5))

    ((_, bid),) = place.sent(Bid)
    assert (bid.places, bid.times) == (2, ((0.0, 10.0),))


def test_before_a_file_has_come_staging_counts_by_the_link_to_the_giver_if_it_is_described() -> (
    None
):
    place = Place()
    place.network.rates["n3"] = 100.0

    place.mover.on_message(an_offer(("in", 500)))

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((5.0, 15.0),)


def test_staging_counts_as_far_as_is_known_how_fast_files_come() -> None:
    place = Place()
    place.state.learned.moved(10.0, 1000)  # a hundred bytes a second

    place.mover.on_message(an_offer(("in", 500)))

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((5.0, 15.0),)


def test_a_core_is_promised_to_one_at_a_time() -> None:
    place = Place()

    place.mover.on_message(an_offer())
    place.mover.on_message(an_offer())

    first, second = (bid.times[0][0] for _, bid in place.sent(Bid))
    assert (first, second) == (0.0, 10.0)


def test_a_promise_counts_until_the_giver_must_have_decided() -> None:
    place = Place(bid_seconds=0.2)

    place.mover.on_message(an_offer())
    place.pass_time(0.4)
    place.mover.on_message(an_offer())

    assert [bid.times[0][0] for _, bid in place.sent(Bid)] == [0.0, 0.0]


def test_a_node_with_two_cores_has_two_places_and_shares_what_waits_among_them() -> None:
    place = Place(cores=2)

    place.mover.on_message(an_offer())
    place.mover.on_message(an_offer())

    assert [(bid.places, bid.times[0][0]) for _, bid in place.sent(Bid)] == [(2, 0.0), (2, 5.0)]


@pytest.mark.parametrize(("priority", "start"), [(1001.0, 20.0), (999.0, 0.0)])
def test_a_task_waits_for_those_in_the_queue_unless_it_is_more_urgent(
    priority: float, start: float
) -> None:
    place = Place()
    place.waits("a", "b", spread=0.0)

    place.mover.on_message(an_offer(priority=priority))

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((start, start + 10.0),)


def test_a_task_waits_for_those_in_line_for_a_core() -> None:
    place = Place()
    place.has_in_line("s")

    place.mover.on_message(an_offer())

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((10.0, 20.0),)


def test_inputs_that_are_here_need_not_come() -> None:
    place = Place()
    place.state.learned.moved(10.0, 1000)
    place.depot.keep_outputs("p", [OutputFile("in", 500)])

    place.mover.on_message(an_offer(("in", 500), ("other", 200)))

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((2.0, 12.0),)


def test_a_node_that_has_not_joined_does_not_bid() -> None:
    place = Place()
    place.state.identity.joined = False

    place.mover.on_message(an_offer())

    assert place.sent(Bid) == []


def test_a_node_that_drains_does_not_bid() -> None:
    place = Place()
    place.state.drain()

    place.mover.on_message(an_offer())

    assert place.sent(Bid) == []


# --- nodes that have nothing to do ---------------------------------------------------------------


def test_who_said_that_it_is_idle_is_offered_what_waits_at_once() -> None:
    place = Place(nodes=100, neighbours=1)
    place.runs(spread=0.5)
    place.waits("a", spread=0.5)
    place.moves()
    place.pass_time(500.0)
    offers = len(place.sent(Offer))

    place.mover.on_message(Ask("n42", 1))
    place.pass_time(0.1)

    assert place.sent(Offer)[offers][0] == "n42"


def test_who_said_that_it_is_idle_has_to_wait_where_nobody_knows_how_long_tasks_run() -> None:
    place = Place(neighbours=1)
    place.runs()
    place.waits("a")
    place.moves()
    place.pass_time(20.0)
    offers = len(place.sent(Offer))

    place.mover.on_message(Ask("n42", 1))
    place.pass_time(0.1)

    assert len(place.sent(Offer)) == offers


def test_an_idle_node_says_so_ever_more_rarely_until_it_has_something() -> None:
    place = Place()
    place.state.queue.hungry.set()
    place.moves()
    place.pass_time(0.1)
    assert sorted(place.sent(Ask)) == [(node, Ask("n0", 1)) for node in ("n1", "n2", "n3")]

    place.pass_time(100.0)
    rarely = len(place.sent(Ask))
    place.waits("a")
    place.pass_time(100.0)

    assert rarely == 3 * 9  # after 0.2 s, 0.4 s, 0.8 s ...
    assert len(place.sent(Ask)) == rarely


def test_a_node_that_is_hungry_only_for_what_it_could_stage_says_nothing() -> None:
    place = Place()
    place.runs()
    place.state.queue.hungry.set()

    place.moves()
    place.pass_time(100.0)

    assert place.sent(Ask) == []


def test_a_node_that_leaves_asks_for_nothing() -> None:
    place = Place()
    place.state.queue.hungry.set()
    place.moves()
    place.pass_time(0.1)

    place.state.drain()
    place.pass_time(100.0)

    assert len(place.sent(Ask)) == 3


@pytest.mark.parametrize(("end", "offers"), [(110.0, 2), (10.0, 1)])
def test_a_late_task_that_nobody_took_is_offered_again_when_a_node_is_idle(
    end: float, offers: int
) -> None:
    place = Place()
    place.runs(spread=0.0)
    place.moves()
    place.pass_time(12.1)
    place.bid("n1", 0.0, end)

    place.mover.on_message(Ask("n1", 1))
    place.pass_time(0.1)

    assert place.offered() == [("runs",)] * offers


# --- cores that others have ----------------------------------------------------------------------


def test_what_waits_for_a_core_that_another_run_has_goes_to_who_has_one() -> None:
    place = Place()
    place.runner.taken = [30.0]
    place.has_in_line("a")
    place.moves()

    assert place.offered() == [("a",)]
    place.bid("n1", 0.0, 10.0)

    assert [event.target for event in place.told(WorkGiven)] == ["n1"]


def test_a_node_whose_cores_others_have_wants_no_uncertain_task_and_asks_for_none() -> None:
    place = Place()
    place.runner.taken = [30.0]
    place.state.queue.hungry.set()
    place.moves()

    place.mover.on_message(an_offer(spread=inf))
    place.pass_time(100.0)

    (bid,) = [bid for _, bid in place.sent(Bid)]
    assert bid.times == ((inf, inf),)
    assert place.sent(Ask) == []
    place.runner.taken = []
    place.pass_time(TAKEN_SECONDS)
    assert len(place.sent(Ask)) == 3


@pytest.mark.parametrize(("latest_start", "offered"), [(68.9, [("a",)]), (69.1, [])])
def test_what_should_have_started_long_ago_may_move_though_its_node_runs_as_estimated(
    latest_start: float, offered: list[tuple[str, ...]]
) -> None:
    place = Place()
    place.runs(spread=0.0, seconds=200.0)
    place.pass_time(100.0)
    place.waits("a", spread=0.0, latest_start=latest_start)

    place.moves()

    assert place.offered() == offered


@pytest.mark.parametrize(("latest_start", "offered"), [(93.9, ("a", "d")), (94.1, ("d",))])
def test_where_a_displaced_task_has_come_what_would_start_too_late_may_move(
    latest_start: float, offered: tuple[str, ...]
) -> None:
    place = Place()
    place.runs(spread=0.0, seconds=100.0)
    place.waits("d", spread=0.0)
    place.hold(a_task("a", estimated_seconds=10.0, estimated_spread=0.0))
    place.state.queue.remove("d")
    place.state.queue.put(a_queue_entry("d", 200.0, seconds=10.0, spread=0.0, displaced=True))
    place.state.queue.put(a_queue_entry("a", latest_start, seconds=10.0, spread=0.0))

    place.moves()

    assert place.offered() == [offered]


@pytest.mark.parametrize(("latest_start", "offered"), [(93.9, [("a",)]), (94.1, [])])
def test_where_a_second_run_has_the_core_what_would_start_too_late_may_move(
    latest_start: float, offered: list[tuple[str, ...]]
) -> None:
    place = Place()
    place.runs(spread=0.0, seconds=100.0, replica=True)
    place.waits("a", spread=0.0, latest_start=latest_start)

    place.moves()

    assert place.offered() == offered


def test_what_would_start_too_late_moves_for_half_a_second() -> None:
    planned = a_queue_entry(seconds=100.0, spread=0.0)

    def goes(wait: float, late: Collection[str]) -> dict[str, str]:
        bids = [a_bid("n1", (0.0, 100.0))]
        return winners({"t": wait}, bids, [planned], 0.5, late=late)

    assert goes(49.0, late=()) == {}
    assert goes(49.0, late={"t"}) == goes(0.6, late={"t"}) == {"t": "n1"}
    assert goes(0.5, late={"t"}) == {}
