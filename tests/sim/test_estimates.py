"""Whatever plan and nodes believe beforehand, the world goes by the truth, and the run ends."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from builders import a_diamond
from dataward.generate import generate
from dataward.model.events import AttemptMeasured, Event, FileMoved, FileStored
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Platform, uniform_platform
from dataward.model.workflow import Workflow
from dataward.node.state import NodeState
from dataward.plan.adage import Plan
from dataward.plan.estimates import EXACT, UNKNOWN, Estimates
from dataward.sim.campaign import drawn_estimates
from dataward.sim.faults import inject, parse_faults
from dataward.sim.simulation import Simulation
from dataward.strategies.strategy import Strategy
from sim.small_runs import GB, MB, adage, cheap, machines, simulate

KINDS = [EXACT, Estimates(0.5), Estimates(1.0), UNKNOWN]
each_kind = pytest.mark.parametrize("estimates", KINDS, ids=str)

MONTAGE = generate("montage", 60, seed=1)


def adage_that_tells(seen: list[Workflow]) -> Strategy:
    """ADAGE, which keeps the workflow that it plans."""

    def plan(
        workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
    ) -> Plan:
        seen.append(workflow)
        return adage().plan(workflow, platform, located, seed)

    return replace(adage(), plan=plan)


@each_kind
def test_tasks_run_as_long_as_they_really_do(estimates: Estimates) -> None:
    run = simulate(MONTAGE, uniform_platform(4, cores=2), adage(), estimates=estimates)

    truth = dict(zip(MONTAGE.task_ids, MONTAGE.runtime_seconds.tolist(), strict=True))
    measured = {event.task: event.wall_seconds for event in run.all(AttemptMeasured)}
    assert measured == pytest.approx(truth)


@each_kind
def test_files_are_as_large_as_they_really_are(estimates: Estimates) -> None:
    run = simulate(MONTAGE, uniform_platform(4, cores=2), adage(), estimates=estimates)

    truth = dict(zip(MONTAGE.file_ids, MONTAGE.size_bytes.tolist(), strict=True))
    stored = {event.file: event.size_bytes for event in run.all(FileStored)}
    assert stored == truth
    assert {event.file for event in run.all(FileMoved)} <= truth.keys()
    assert all(event.size_bytes == truth[event.file] for event in run.all(FileMoved))


@each_kind
def test_the_plan_sees_estimates_and_not_the_truth(estimates: Estimates) -> None:
    seen: list[Workflow] = []

    simulate(MONTAGE, uniform_platform(4), adage_that_tells(seen), estimates=estimates)

    made = MONTAGE.producers.degrees() > 0
    is_exact = estimates == EXACT
    (planned,) = seen
    assert np.array_equal(planned.runtime_seconds, MONTAGE.runtime_seconds) == is_exact
    assert np.array_equal(planned.size_bytes[made], MONTAGE.size_bytes[made]) == is_exact
    assert np.array_equal(planned.size_bytes[~made], MONTAGE.size_bytes[~made])
    assert (planned.runtime_seconds > 0).all()


def test_nodes_are_told_estimates_and_how_good_they_are() -> None:
    run = simulate(a_diamond(), cheap(*machines(2)), estimates=Estimates(0.5))
    unknown = simulate(a_diamond(), cheap(*machines(2)), estimates=UNKNOWN)

    specs = [record.spec for record in run.records.values()]
    assert {spec.estimated_spread for spec in specs} == {0.5}
    assert all(spec.estimated_seconds > 0 for spec in specs)
    assert {spec.estimated_seconds for spec in specs}.isdisjoint({1.0, 2.0, 3.0, 4.0})
    assert {record.spec.estimated_seconds for record in unknown.records.values()} == {0.0}


def test_another_seed_draws_other_estimates() -> None:
    def estimated(seed: int) -> list[float]:
        run = simulate(a_diamond(), cheap(*machines(2)), seed=seed, estimates=Estimates(0.5))
        return [run.records[task].spec.estimated_seconds for task in a_diamond().task_ids]

    assert estimated(1) == estimated(1)
    assert estimated(1) != estimated(2)


def events_of(estimates: Estimates, faults: str) -> list[Event]:
    """A run on machines of different speeds, some of which get slower."""
    speeds = (0.5, 1.0, 2.0, 1.0)
    parts = tuple(Machine(NodeId(f"n{i}"), cores=1, speed=s) for i, s in enumerate(speeds))
    events: list[Event] = []
    simulation = Simulation(
        MONTAGE, Platform(parts), adage(), 3, [events.append], estimates=estimates
    )
    inject(simulation, parse_faults(faults), 500.0)
    simulation.run()
    return events


@pytest.mark.parametrize("faults", ["none", "chaos", "slow=0.5"])
def test_where_run_times_are_certain_nothing_that_is_learned_changes_the_run(
    monkeypatch: pytest.MonkeyPatch, faults: str
) -> None:
    learning = events_of(EXACT, faults)
    monkeypatch.setattr(NodeState, "learn", lambda self, task, seconds: None)

    assert learning == events_of(EXACT, faults)


@pytest.mark.parametrize("estimates", [UNKNOWN, Estimates(1.0)], ids=str)
def test_where_they_are_not_what_is_learned_does(
    monkeypatch: pytest.MonkeyPatch, estimates: Estimates
) -> None:
    learning = events_of(estimates, "none")
    monkeypatch.setattr(NodeState, "learn", lambda self, task, seconds: None)

    assert learning != events_of(estimates, "none")


def test_small_disks_are_cleared_for_what_is_written_and_not_for_what_was_estimated() -> None:
    # The node fetches files of 100 MB until its disk is full, and then writes another: unless it
    # made room for the true size, the task would find no room anywhere, for ever.
    wf = generate("fork-join", 12, seed=1)
    wf = replace(wf, size_bytes=np.full(len(wf.file_ids), 100 * MB))
    small = cheap(*machines(2, capacity_bytes=1.2 * GB))

    for estimates in KINDS:
        run = simulate(wf, small, estimates=estimates)

        assert run.summary.complete == len(wf)


def test_a_campaign_knows_half_of_its_workflows_exactly_and_some_not_at_all() -> None:
    drawn = [drawn_estimates(seed) for seed in range(400)]

    assert 150 < drawn.count(EXACT) < 250
    assert 20 < drawn.count(UNKNOWN) < 80
    assert len(set(drawn)) == 5
    assert drawn == [drawn_estimates(seed) for seed in range(400)]
