"""The checks can fail: take one safeguard out of the store and seeds go red.

A suite that is always green proves nothing about what it would catch. Each mutation removes one
rule that DESIGN.md relies on, under faults that need it. The seeds are few and fixed; were another
schedule to miss what a mutation breaks, more of them would find it, for about half go red.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import pytest

from dataward.generate import generate
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow
from dataward.sim.campaign import run_trial, small_cluster
from dataward.sim.faults import FaultPlan
from dataward.sim.simulation import Removal, Stuck
from dataward.stores.shard import Shard
from dataward.strategies.registry import STRATEGIES
from dataward.strategies.strategy import Strategy
from sim.broken_shards import (
    BROKEN_SHARDS,
    CommitsTwice,
    CompletesTheRemoved,
    CountsNotices,
    ForgetsClaims,
    NeverRedelivers,
    OrphansTheLiving,
    SeizesTheLiving,
    SparesTheYoung,
    WithoutFence,
)

SEEDS = range(12)


@dataclass(frozen=True)
class Mutation:
    """A shard with a safeguard missing, the faults that need it, and the words that betray it."""

    shard: type[Shard]
    plan: FaultPlan
    betrayed_by: str
    tasks: int = 30
    lease_seconds: float = 10.0
    removes: bool = False


MUTATIONS = [
    Mutation(WithoutFence, FaultPlan(partitions=4), "after losing its lease"),
    Mutation(CountsNotices, FaultPlan(store_silence=0.1), "before its parent"),
    Mutation(
        NeverRedelivers, FaultPlan(crash=1.0, crash_seconds=30.0, store_loss=0.2), "only", tasks=60
    ),
    Mutation(OrphansTheLiving, FaultPlan(), "while its lease still holds"),
    Mutation(SeizesTheLiving, FaultPlan(), "while its lease still holds", lease_seconds=2.0),
    Mutation(CommitsTwice, FaultPlan(message_loss=0.9), "and again by"),
    Mutation(ForgetsClaims, FaultPlan(store_silence=0.2), "only"),
    Mutation(CompletesTheRemoved, FaultPlan(message_loss=0.9), "was removed, yet", removes=True),
    Mutation(SparesTheYoung, FaultPlan(), "only", removes=True),
]
each_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.shard.__name__)


@cache
def a_montage(tasks: int) -> Workflow:
    return generate("montage", tasks, seed=1)


def hasty(lease_seconds: float) -> Strategy:
    adage = STRATEGIES["adage"]
    settings = replace(
        adage.settings, lease_seconds=lease_seconds, validation_seconds=lease_seconds / 2
    )
    return replace(adage, settings=settings)


def a_few_removals(workflow: Workflow, seed: int) -> list[Removal]:
    """Early, so that what is removed has not ended yet."""
    random = seeded(seed, "a few")
    return [Removal(task, 30.0 * random.random()) for task in random.sample(workflow.task_ids, 8)]


def problems(mutation: Mutation, shard: type[Shard]) -> Iterator[str]:
    """What goes wrong with this shard, seed by seed; "" where nothing does."""
    workflow, strategy = a_montage(mutation.tasks), hasty(mutation.lease_seconds)
    for seed in SEEDS:
        cluster = small_cluster(seed, nodes=4)
        removals = a_few_removals(workflow, seed) if mutation.removes else []
        try:
            run_trial(
                workflow, cluster, strategy, mutation.plan, seed,
                make_shard=shard, removals=removals,
            )  # fmt: skip
        except (AssertionError, Stuck) as problem:
            yield str(problem)
        else:
            yield ""


def test_every_broken_shard_is_tried() -> None:
    assert {mutation.shard for mutation in MUTATIONS} == set(BROKEN_SHARDS)


@each_mutation
def test_without_a_safeguard_a_seed_goes_red(mutation: Mutation) -> None:
    assert any(mutation.betrayed_by in problem for problem in problems(mutation, mutation.shard))


@each_mutation
def test_with_it_the_same_seeds_are_green(mutation: Mutation) -> None:
    assert list(problems(mutation, Shard)) == [""] * len(SEEDS)
