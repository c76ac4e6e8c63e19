"""Scripted faults: each happens at its point of the run, and what the run does after is checked."""

from dataclasses import replace

import pytest

from dataward.model.answers import Answer
from dataward.model.events import AttemptBegan, Event, FaultInjected, NodeJoined, NodeLost
from dataward.model.operations import Join, Operation
from dataward.model.platform import StoreModel, uniform_platform
from dataward.sim.campaign import checker_of, run_checked
from dataward.sim.interference import StoreFate
from dataward.sim.script import (
    CALLS,
    CRASH_LEASES,
    ECHO_SECONDS,
    MESSAGES,
    RESTART_LEASES,
    PointFault,
    PointKind,
    Script,
    Track,
)
from dataward.sim.simulation import Simulation
from dataward.stores.shard import Shard
from sim.small_runs import adage, equal_tasks

LEASE_SECONDS = 10.0


def a_simulation(script: Script) -> Simulation:
    """Three tasks on two nodes and two shards."""
    return Simulation(
        equal_tasks(3, 2.0, writes=1000),
        replace(uniform_platform(2, cores=1), store=StoreModel(shards=2)),
        adage(lease_seconds=LEASE_SECONDS, validation_seconds=LEASE_SECONDS / 2),
        time_limit_seconds=1000.0,
        script=script,
    )


class Scripted:
    """A run to its end, with faults at points."""

    def __init__(self, *faults: PointFault) -> None:
        self.script = Script(faults)
        self.simulation = a_simulation(self.script)
        self.events: list[Event] = []
        self.applied: list[tuple[float, Operation, int]] = []
        self.simulation.watch(self.events.append, self._on_applied)
        checker = checker_of(self.simulation)
        self.script.arrange(self.simulation, checker)
        run_checked(self.simulation, checker, lambda: self.script.over_seconds)

    def _on_applied(self, operation: Operation, answer: Answer, shard: Shard) -> None:
        self.applied.append((self.simulation.kernel.now(), operation, shard.index))

    def times(self, kind: type[Event], node: str) -> list[float]:
        return [event.at for event in self.events if isinstance(event, kind) and event.node == node]


def at(point: int, kind: PointKind, place: str = "", span: int = 1) -> PointFault:
    return PointFault(Track(kind, place, span), point)


def fates(script: Script, calls: int) -> list[StoreFate]:
    script.passed = {CALLS: 0, MESSAGES: 0}
    return [script.store_fate("n0", 0) for _ in range(calls)]


def test_the_call_at_the_point_is_lost_or_not_answered_and_no_other() -> None:
    script = Script([at(2, PointKind.CALL), at(3, PointKind.ANSWER)])

    answered = StoreFate.ANSWERED
    assert fates(script, 4) == [answered, StoreFate.LOST, StoreFate.UNANSWERED, answered]


def test_the_message_at_the_point_is_lost_or_comes_twice_and_no_other() -> None:
    script = Script([at(2, PointKind.MESSAGE), at(3, PointKind.DOUBLE)])
    simulation = a_simulation(script)
    script.arrange(simulation, checker_of(simulation))

    delays = [script.delivery_delays("n0", "n1") for _ in range(4)]

    assert delays == [[0.0], [], [0.0, ECHO_SECONDS], [0.0]]
    assert script.lost_messages == 1
    assert script.over_seconds == ECHO_SECONDS


def test_the_first_message_is_the_clients_hint_and_without_it_its_node_begins_late() -> None:
    calm, lost = Scripted(), Scripted(at(1, PointKind.MESSAGE))

    late_seconds = [
        min(lost.times(AttemptBegan, node)) - min(calm.times(AttemptBegan, node))
        for node in ("n0", "n1")
    ]
    assert sorted(seconds > 1 for seconds in late_seconds) == [False, True]


@pytest.mark.parametrize(
    ("kind", "leases"), [(PointKind.CRASH, CRASH_LEASES), (PointKind.RESTART, RESTART_LEASES)]
)
def test_a_node_goes_down_at_its_step_and_comes_back(kind: PointKind, leases: float) -> None:
    run = Scripted(at(60, kind, "n1"))

    (lost_seconds,) = run.times(NodeLost, "n1")
    joined_seconds = run.times(NodeJoined, "n1")
    assert run.script.struck["n1"] == 60
    assert joined_seconds[-1] == pytest.approx(lost_seconds + leases * LEASE_SECONDS, abs=0.1)
    assert not run.times(NodeLost, "n0")


def test_the_steps_of_a_node_are_counted_only_while_it_is_up() -> None:
    passed = Scripted(at(60, PointKind.CRASH, "n1")).script.passed

    assert passed["n1"] < passed["n0"]


@pytest.mark.parametrize("span", [1, 3])
def test_a_shard_forgets_its_last_calls_at_its_point(span: int) -> None:
    run = Scripted(at(9, PointKind.FORGET, "s0", span))

    (fault,) = [event for event in run.events if isinstance(event, FaultInjected)]
    assert (fault.kind, fault.where) == ("forget", "store-0")
    assert run.script.struck["s0"] == 9
    assert [shard.epoch for shard in run.simulation.store.shards] == [1, 0]


def members_after_calls(*faults: PointFault) -> list[list[str]]:
    """The nodes that a shard knows after each of five calls, in which one more joins."""
    script = Script(faults)
    simulation = a_simulation(script)
    script.arrange(simulation, checker_of(simulation))
    known = []
    for node in "abcde":
        simulation.store.shards[0].apply(Join(node, 1, 10.0), 0.0)
        for listener in simulation.store.after_call:
            listener(0)
        known.append(list(simulation.store.shards[0].nodes))
    return known


def test_what_a_shard_forgets_is_just_the_calls_that_the_fault_names() -> None:
    (_, _, third, _, last) = members_after_calls(at(3, PointKind.FORGET, "s0", span=2))

    assert (third, last) == (["a"], ["a", "d", "e"])


def test_a_shard_is_not_set_back_to_what_it_forgot() -> None:
    first, second = at(3, PointKind.FORGET, "s0", span=2), at(4, PointKind.FORGET, "s0", span=2)

    (_, _, third, fourth, _) = members_after_calls(first, second)

    assert (third, fourth) == (["a"], ["a"])


def test_up_to_its_fault_a_run_is_the_same() -> None:
    calm = Scripted()
    faulty = Scripted(at(12, PointKind.CALL))

    same = [a == b for a, b in zip(calm.applied, faulty.applied, strict=False)]
    assert all(same[: sum(faulty.script.struck[shard] for shard in ("s0", "s1"))])
    assert not all(same)


def test_a_fault_beyond_the_end_of_a_run_is_missed() -> None:
    run = Scripted(at(10**6, PointKind.CALL), at(1, PointKind.MESSAGE))

    assert [str(fault) for fault in run.script.missed] == ["call@1000000"]


def test_points_lie_after_one_moment_and_up_to_another() -> None:
    track = Track(PointKind.FORGET, "s0", span=4)

    assert list(track.points({"s0": 0}, {"s0": 6})) == [4, 5, 6]
    assert list(track.points({"s0": 4}, {"s0": 6})) == [5, 6]
    assert not track.points({"s0": 6}, {"s0": 6})
