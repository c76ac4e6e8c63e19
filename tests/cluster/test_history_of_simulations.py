"""The history checker is content with what nodes do, and not with what broken ones do.

The histories are simulated, as lists of events of each node: the same events as those of hosts.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from dataward.cluster.history import FinalState, broken_promises
from dataward.cluster.troubles import Trouble, TroubleKind, Troubles
from dataward.generate import generate
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    NodeJoined,
    NodeLost,
    RunEnded,
    TaskFinished,
)
from dataward.model.ids import CLIENT, NodeId
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, Workflow
from dataward.node.fetching import Fetcher
from dataward.node.placer import Placer
from dataward.sim.campaign import small_cluster
from dataward.sim.faults import FaultPlan, inject
from dataward.sim.simulation import Simulation
from dataward.stores.shard import Shard
from dataward.strategies.registry import STRATEGIES
from dataward.world import InputLost
from sim.broken_shards import CommitsTwice, OrphansTheLiving

SEEDS = range(4)
LEASE_SECONDS = 10.0
CRASHES = FaultPlan(crash=1.0, crash_seconds=30.0)
NONE: dict[FileId, str] = {}


def a_workflow() -> Workflow:
    return generate("montage", 30, seed=1)


def simulated(
    seed: int, plan: FaultPlan, shard: type[Shard] = Shard, lease_seconds: float = LEASE_SECONDS
) -> list[Event]:
    adage = STRATEGIES["adage"]
    settings = replace(
        adage.settings, lease_seconds=lease_seconds, validation_seconds=lease_seconds / 2
    )
    simulation = Simulation(
        a_workflow(), small_cluster(seed, nodes=4), replace(adage, settings=settings), seed,
        make_shard=shard, time_limit_seconds=1e5,
    )  # fmt: skip
    events: list[Event] = []
    simulation.watch(events.append)
    inject(simulation, plan, 100.0)
    simulation.run()
    return events


def judged(events: list[Event], lease_seconds: float = LEASE_SECONDS) -> list[str]:
    """The broken promises of a simulated run, in which crashes are the only trouble."""
    workflow = a_workflow()
    ids, files = workflow.task_ids, workflow.file_ids
    parents = {ids[t]: [ids[p] for p in row] for t, row in enumerate(workflow.parents.rows())}
    outputs = {ids[t]: [files[f] for f in row] for t, row in enumerate(workflow.outputs.rows())}
    lists: dict[NodeId, list[Event]] = {}
    for event in [*events, *cut_off(events)]:
        lists.setdefault(getattr(event, "node", CLIENT), []).append(event)
    generations: dict[Any, int] = {}
    for event in events:
        if isinstance(event, TaskFinished):
            generations[event.task] = event.generation
    final = FinalState(dict.fromkeys(ids, TaskState.COMPLETE), generations, NONE, NONE, NONE)
    return broken_promises(lists, parents, final, crashes(events, lease_seconds), outputs)


def cut_off(events: list[Event]) -> Iterator[Event]:
    """The ends of attempts that were under way when the run ended: hosts tell of them."""
    ended = {e.attempt for e in events if isinstance(e, AttemptEnded | TaskFinished)}
    at = next(e.at for e in events if isinstance(e, RunEnded))
    for e in events:
        if not isinstance(e, AttemptBegan) or e.attempt in ended:
            continue
        if all(not isinstance(o, NodeLost) or o.node != e.node or o.at < e.at for o in events):
            yield AttemptEnded(at, e.task, e.attempt, e.node, AttemptOutcome.CANCELLED)


def crashes(events: list[Event], lease_seconds: float) -> Troubles:
    found = []
    for event in events:
        if isinstance(event, NodeLost):
            back = [e.at for e in events if isinstance(e, NodeJoined) and e.node == event.node]
            end = min((at for at in back if at > event.at), default=inf)
            found.append(Trouble(TroubleKind.KILLED, event.at, end, event.node))
    return Troubles(found, lease_seconds)


@pytest.mark.parametrize("plan", [FaultPlan(), CRASHES], ids=["calm", "crashes"])
def test_what_nodes_do_keeps_all_promises(plan: FaultPlan) -> None:
    for seed in SEEDS:
        assert judged(simulated(seed, plan)) == [], seed


def test_a_crash_is_needed_to_explain_what_follows_from_it() -> None:
    """The same histories without the word of the crashes are found out."""
    events = [e for e in simulated(1, CRASHES) if not isinstance(e, NodeLost)]

    problems = judged(events)

    assert any("was taken over from" in problem for problem in problems)


@pytest.mark.parametrize(
    ("shard", "plan", "lease_seconds", "said"),
    [
        (CommitsTwice, FaultPlan(message_loss=0.9), 10.0, "was won by"),
        (OrphansTheLiving, FaultPlan(), 10.0, "though nothing had happened to it"),
    ],
)
def test_a_store_without_a_safeguard_is_found_out(
    shard: type[Shard], plan: FaultPlan, lease_seconds: float, said: str
) -> None:
    problems = judged(simulated(1, plan, shard, lease_seconds), lease_seconds)

    assert any(said in problem for problem in problems)


# --- broken nodes --------------------------------------------------------------------------------


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every file that comes from another node for lost, the first time."""
    fetch, seen = Fetcher.fetch, set[str]()

    async def never(self: Fetcher, urgency: float, file: Any, sources: Any) -> None:
        if file.producer and file.id not in seen and self.world.kernel.now() > 30:
            seen.add(file.id)
            raise InputLost([file])
        await fetch(self, urgency, file, sources)

    monkeypatch.setattr(Fetcher, "fetch", never)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reopens tasks and does not tell of it."""
    reopen = Placer.reopen

    async def quietly(self: Placer, generations: Any, avoid: Any = ()) -> Any:
        world = self.world
        self.world = replace(world, emit=lambda event: None)
        try:
            return await reopen(self, generations, avoid)
        finally:
            self.world = world

    monkeypatch.setattr(Placer, "reopen", quietly)


@pytest.mark.parametrize(
    ("breaks", "plan", "said"),
    [
        ([impatient], FaultPlan(), "had what it wrote"),
        ([impatient, forgetful], FaultPlan(), "though it was reopened 0 times"),
    ],
    ids=["impatient", "forgetful"],
)
def test_a_broken_node_is_found_out(
    breaks: list[Callable[[pytest.MonkeyPatch], None]],
    plan: FaultPlan,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for broken in breaks:
        broken(monkeypatch)

    found: list[str] = []
    for seed in SEEDS:
        found += judged(simulated(seed, plan))

    assert any(said in problem for problem in found), found[:5]
