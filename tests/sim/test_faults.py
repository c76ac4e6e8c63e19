"""Fault plans: how they are written, what they draw, and what each does to a run."""

from collections import Counter
from dataclasses import fields, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.events import FaultInjected, NodeJoined, NodeLost
from dataward.model.seeds import seeded
from dataward.model.states import TaskState
from dataward.sim.faults import (
    PRESETS,
    Fault,
    FaultKind,
    FaultPlan,
    draw_faults,
    inject,
    parse_faults,
)
from dataward.sim.interference import Interference, StoreFate
from dataward.sim.simulation import Simulation
from sim.small_runs import Run, adage, cheap, equal_tasks, machines, one_task, simulate

NODES = [f"n{i:02}" for i in range(20)]


def draw(plan: FaultPlan, seed: int = 0, nodes: list[str] = NODES) -> list[Fault]:
    return draw_faults(plan, nodes, 3, 100.0, Random(seed))


# --- how they are written ------------------------------------------------------------------------


def test_a_preset_has_a_name() -> None:
    assert all(parse_faults(name) == plan for name, plan in PRESETS.items())
    assert parse_faults("") == parse_faults("none") == FaultPlan()


def test_a_preset_may_be_changed() -> None:
    assert parse_faults("chaos,crash=0.5") == replace(PRESETS["chaos"], crash=0.5)
    assert parse_faults("slow=0.1,slow_factor=10") == FaultPlan(slow=0.1, slow_factor=10.0)


def test_counts_are_whole_numbers() -> None:
    assert parse_faults("partitions=2").partitions == 2
    with pytest.raises(SettingError, match=r"partitions takes a number, not '1\.5'"):
        parse_faults("partitions=1.5")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gremlins", "no fault is called 'gremlins'; there are none, crashes"),
        ("crash", "no fault is called 'crash'"),
        ("chaos=1", "no fault is called 'chaos'"),
        ("crash=", "takes a number, not ''"),
        ("crash=-0.1", "cannot be negative"),
        ("crash=nan", "takes a number, not 'nan'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        parse_faults(text)


@pytest.mark.parametrize("field", [field.name for field in fields(FaultPlan)])
def test_every_fault_can_be_asked_for(field: str) -> None:
    assert getattr(parse_faults(f"{field}=1"), field) == 1


# --- what is drawn -------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_faults_come_in_order_and_end_after_they_began(seed: int) -> None:
    faults = draw(PRESETS["chaos"], seed)

    begins = [fault.begin_seconds for fault in faults]
    assert begins == sorted(begins)
    assert all(0 <= fault.begin_seconds <= 100.0 for fault in faults)
    assert all(fault.end_seconds >= fault.begin_seconds for fault in faults)
    assert faults == draw(PRESETS["chaos"], seed)


@given(st.integers(0, 2**32))
def test_a_share_of_the_nodes_is_hit_each_once(seed: int) -> None:
    faults = draw(FaultPlan(crash=0.25, slow=0.1, mute=0.01), seed)

    assert Counter(fault.kind for fault in faults) == {
        FaultKind.CRASH: 5,
        FaultKind.SLOW: 2,
        FaultKind.MUTE: 1,
    }
    crashed = [fault.where for fault in faults if fault.kind is FaultKind.CRASH]
    assert len(set(crashed)) == 5


@given(st.integers(0, 2**32))
def test_somebody_is_always_spared(seed: int) -> None:
    faults = draw(FaultPlan(gone=1.0, crash=1.0), seed)

    gone = {fault.where[0] for fault in faults if fault.kind is FaultKind.GONE}
    crashed = {fault.where[0] for fault in faults if fault.kind is FaultKind.CRASH}
    assert gone == set(NODES[1:])
    assert crashed == {NODES[0]}
    assert all(
        fault.end_seconds == float("inf") for fault in faults if fault.kind is FaultKind.GONE
    )


@given(st.integers(0, 2**32))
def test_the_first_node_neither_comes_late_nor_leaves(seed: int) -> None:
    faults = draw(FaultPlan(late=1.0, leave=1.0), seed)

    for kind in (FaultKind.LATE, FaultKind.LEAVE):
        assert {f.where[0] for f in faults if f.kind is kind} == set(NODES[1:])


@given(st.integers(0, 2**32))
def test_that_nodes_come_and_go_changes_no_other_fault_of_a_seed(seed: int) -> None:
    fixed = draw(replace(PRESETS["chaos"], late=0.0, leave=0.0), seed)

    faults = draw(PRESETS["chaos"], seed)

    both = (FaultKind.LATE, FaultKind.LEAVE)
    assert [fault for fault in faults if fault.kind not in both] == fixed
    assert len(faults) > len(fixed)


def test_a_single_node_may_crash_but_is_never_gone() -> None:
    assert {f.kind for f in draw(FaultPlan(gone=1.0, crash=1.0), nodes=["n0"])} == {FaultKind.CRASH}


def test_no_plan_no_faults() -> None:
    assert draw(FaultPlan()) == []


def test_partitions_cut_groups_of_nodes_and_shards() -> None:
    faults = draw(FaultPlan(partitions=20))

    assert len(faults) == 20
    members = {member for fault in faults for member in fault.where}
    assert members == {*NODES, "store-0", "store-1", "store-2"}


# --- what they do --------------------------------------------------------------------------------


def meet(plan: FaultPlan, *, nodes: int = 4, seed: int = 0) -> tuple[Run, list[Fault]]:
    faults: list[Fault] = []

    def meddle(simulation: Simulation) -> None:
        faults.extend(inject(simulation, plan, 50.0))

    strategy = adage(lease_seconds=10.0, validation_seconds=5.0, giving=False)
    run = simulate(
        equal_tasks(40, 20.0), cheap(*machines(nodes)), strategy, seed=seed, meddle=meddle
    )
    return run, faults


def test_a_crash_takes_a_node_down_and_brings_it_back() -> None:
    run, (fault,) = meet(FaultPlan(crash=0.25, crash_seconds=20.0))

    (lost,) = run.all(NodeLost)
    assert (lost.node, lost.at) == (fault.where[0], pytest.approx(fault.begin_seconds))
    back = [e for e in run.all(NodeJoined) if e.node == lost.node][1]
    assert back.at == pytest.approx(fault.end_seconds)
    assert back.incarnation == 2


def test_a_node_that_is_gone_does_not_come_back() -> None:
    run, (fault,) = meet(FaultPlan(gone=0.25))

    joined = Counter(event.node for event in run.all(NodeJoined))
    assert joined[fault.where[0]] == 1
    assert {record.state for record in run.records.values()} == {TaskState.COMPLETE}


def test_faults_are_in_the_event_list() -> None:
    run, faults = meet(FaultPlan(crash=0.25, mute=0.25, slow=0.25))

    listed = [(event.kind, event.where, event.at) for event in run.all(FaultInjected)]
    assert listed == [
        (f.kind.value, " ".join(f.where), pytest.approx(f.begin_seconds)) for f in faults
    ]


def test_a_slow_node_is_slower_by_its_factor_while_it_lasts() -> None:
    plan = FaultPlan(slow=1.0, slow_factor=4.0, slow_seconds=1e6)

    def meddle(simulation: Simulation) -> None:
        simulation.seed = 0
        inject(simulation, plan, 0.0)  # at once

    run = simulate(one_task(10.0), cheap(*machines(1)), meddle=meddle)

    assert run.makespan == pytest.approx(40.0)


def test_background_load_slows_everybody_and_changes() -> None:
    plan = FaultPlan(background=0.4, background_seconds=5.0)

    def makespan(seed: int) -> float:
        return simulate(
            one_task(100.0),
            cheap(*machines(1)),
            seed=seed,
            meddle=lambda simulation: [inject(simulation, plan, 100.0), None][1],
        ).makespan

    alone = [makespan(seed) for seed in range(10)]
    assert all(100.0 < seconds < 1000.0 for seconds in alone)
    assert len(set(alone)) == 10
    assert 130.0 < sum(alone) / 10 < 220.0  # 40% of the time is taken, on average


def test_steady_background_load_changes_on_every_node_at_the_same_moments() -> None:
    plan = FaultPlan(background=0.5, background_seconds=300.0, background_steady=1)
    speeds: list[tuple[float, float]] = []

    def meddle(simulation: Simulation) -> None:
        inject(simulation, plan, 100.0)
        for start in range(0, 900, 300):
            for after in (1.0, 299.0):
                simulation.kernel.call_at(start + after, note, simulation)

    def note(simulation: Simulation) -> None:
        one, other = simulation.machines.values()
        speeds.append((one.speed, other.speed))

    simulate(one_task(1000.0), cheap(*machines(2)), meddle=meddle)

    assert speeds[0::2] == speeds[1::2]
    assert len({speed for pair in speeds for speed in pair}) == 6


# --- messages and calls --------------------------------------------------------------------------


def trouble(**rates: float) -> Interference:
    found = Interference(seeded(1, "interference"))
    for name, rate in rates.items():
        setattr(found, name, rate)
    return found


def test_without_trouble_a_message_arrives_once_and_at_once() -> None:
    assert trouble().delivery_delays("a", "b") == [0.0]
    assert trouble().store_fate("a", 0) is StoreFate.ANSWERED


def test_messages_are_lost_doubled_and_late_as_often_as_asked() -> None:
    some = trouble(message_loss=0.2, message_duplication=0.25, message_delay_seconds=2.0)

    arrivals = [some.delivery_delays("a", "b") for _ in range(4000)]

    times = Counter(len(delays) for delays in arrivals)
    assert times[0] / 4000 == pytest.approx(0.2, abs=0.03)
    assert times[2] / 4000 == pytest.approx(0.8 * 0.25, abs=0.03)
    delays = [delay for message in arrivals for delay in message]
    assert 0.0 <= min(delays) <= max(delays) <= 2.0


def test_store_calls_are_lost_or_unanswered_as_often_as_asked() -> None:
    some = trouble(store_loss=0.1, store_silence=0.3)

    fates = Counter(some.store_fate("a", 0) for _ in range(4000))

    assert fates[StoreFate.LOST] / 4000 == pytest.approx(0.1, abs=0.03)
    assert fates[StoreFate.UNANSWERED] / 4000 == pytest.approx(0.3, abs=0.03)


def test_who_is_cut_off_reaches_only_its_own_side() -> None:
    island = trouble()
    island.cuts.append(frozenset({"a", "b", "store-1"}))

    assert island.reaches("a", "b")
    assert island.reaches("c", "d")
    assert not island.reaches("a", "c")
    assert island.delivery_delays("a", "c") == []
    assert island.store_fate("a", 0) is StoreFate.LOST
    assert island.store_fate("a", 1) is StoreFate.ANSWERED


def test_two_partitions_both_cut() -> None:
    islands = trouble()
    islands.cuts += [frozenset({"a", "b"}), frozenset({"b", "c"})]

    assert not islands.reaches("a", "b")
    assert not islands.reaches("b", "d")
    assert islands.reaches("e", "d")
