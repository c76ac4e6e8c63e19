"""ADAGE and its ablations: each differs from the whole in the one part it is named for."""

from dataclasses import replace

import numpy as np
import pytest

from dataward.generate import generate
from dataward.model.platform import Placement, uniform_platform
from dataward.model.states import TaskState
from dataward.node.mover import Staying
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import simulate

MONTAGE = generate("montage", 60, seed=1)
PLATFORM = uniform_platform(4, cores=1)


def plan_of(name: str, seed: int = 0) -> Plan:
    return STRATEGIES[name].plan(MONTAGE, PLATFORM, {}, seed)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_completes_every_task(name: str) -> None:
    run = simulate(MONTAGE, PLATFORM, STRATEGIES[name])

    assert {record.state for record in run.records.values()} == {TaskState.COMPLETE}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_plan_gives_every_task_a_node_and_an_urgency(name: str) -> None:
    plan = plan_of(name)

    assert len(plan.priority) == len(plan.preferred) == len(MONTAGE)
    assert set(plan.preferred.tolist()) <= set(range(4))
    assert np.isfinite(plan.priority).all()


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_plan_depends_on_nothing_but_its_seed(name: str) -> None:
    one, same = plan_of(name, 7), plan_of(name, 7)

    assert (one.priority == same.priority).all()
    assert (one.preferred == same.preferred).all()


def test_without_order_only_the_urgencies_differ() -> None:
    whole, part = plan_of("adage"), plan_of("adage-no-order")

    assert (whole.preferred == part.preferred).all()
    assert not (whole.priority == part.priority).all()
    assert STRATEGIES["adage-no-order"].settings == STRATEGIES["adage"].settings


def test_without_data_only_the_nodes_differ() -> None:
    whole, part = plan_of("adage"), plan_of("adage-no-data")

    assert (whole.priority == part.priority).all()
    assert not (whole.preferred == part.preferred).all()
    assert STRATEGIES["adage-no-data"].settings == STRATEGIES["adage"].settings


def test_another_seed_is_another_random_plan() -> None:
    assert not (plan_of("adage-random", 1).preferred == plan_of("adage-random", 2).preferred).all()


def test_without_giving_only_giving_is_off() -> None:
    assert STRATEGIES["adage-no-giving"].settings == NodeSettings()
    assert STRATEGIES["adage-no-giving"].mover == Staying()
    run = simulate(MONTAGE, PLATFORM, STRATEGIES["adage-no-giving"])
    assert run.summary.given == run.summary.replicas_run == 0


def test_without_replication_nothing_runs_twice() -> None:
    run = simulate(MONTAGE, PLATFORM, STRATEGIES["adage-no-replication"])

    assert run.summary.given > 0
    assert run.summary.attempts == len(MONTAGE)
    assert run.summary.replicas_run == run.summary.replicas_wasted == 0


def test_the_whole_gives_and_replicates() -> None:
    run = simulate(MONTAGE, PLATFORM, STRATEGIES["adage"])

    assert run.summary.given > 0
    assert run.summary.replicas_run > 0


def test_knowing_the_data_moves_fewer_bytes() -> None:
    spread = replace(PLATFORM, placement=Placement.SPREAD)

    moved = {
        name: simulate(MONTAGE, spread, STRATEGIES[name]).summary.bytes_moved
        for name in ("adage", "adage-no-data")
    }

    assert moved["adage"] < moved["adage-no-data"]


def test_each_is_listed_under_its_own_name() -> None:
    assert all(name == strategy.name for name, strategy in STRATEGIES.items())
    assert all(strategy.summary for strategy in STRATEGIES.values())
