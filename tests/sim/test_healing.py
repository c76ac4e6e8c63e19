"""Healing is seen: none in fair weather, and a broken line that only costs repairs goes red."""

from collections.abc import Callable
from dataclasses import asdict, replace

import msgspec
import pytest

from dataward.cli.seed_trials import try_seed
from dataward.cli.seed_workflows import Workflows
from dataward.model.answers import Committed, Orphans
from dataward.model.events import TaskReopened
from dataward.model.messages import Message, WorkQueued
from dataward.model.operations import (
    AddCopies,
    Begin,
    Commit,
    Copy,
    Delivered,
    Operation,
    Reopen,
    Submit,
    TaskSpec,
)
from dataward.model.platform import uniform_platform
from dataward.model.workflow import TaskId
from dataward.node.committer import Committer
from dataward.node.depot import Depot
from dataward.node.neighbourhood import Neighbourhood
from dataward.node.node import Node
from dataward.node.outbox import Outbox
from dataward.node.patrol import ShardPatrol
from dataward.sim.campaign import impatient, run_trial
from dataward.sim.faults import FaultPlan
from dataward.sim.healing import Healing, HealingTally, SeenTrouble
from dataward.sim.healing_bounds import BOUNDS, HealedRun, check_healing
from dataward.sim.invariants import InvariantBroken
from dataward.sim.simulation import Simulation
from dataward.stores.shard import Shard
from dataward.strategies.registry import STRATEGIES
from node.fake_world import a_task
from sim.small_runs import adage, equal_tasks

Patch = pytest.MonkeyPatch

# --- broken lines --------------------------------------------------------------------------------


def reports_no_load(patch: Patch) -> None:
    told = Outbox.load_told
    patch.setattr(Outbox, "load_told", lambda self: 0.0 * told(self))


def never_says_delivered(patch: Patch) -> None:
    later = Outbox.later

    def all_but_delivered(self: Outbox, operation: Operation) -> None:
        if not isinstance(operation, Delivered):
            later(self, operation)

    patch.setattr(Outbox, "later", all_but_delivered)


def never_lets_go_of_what_it_won(patch: Patch) -> None:
    on_won, let_go = Committer._on_won, Outbox.let_go

    def keep(self: Committer, commit: Commit, answer: Committed) -> None:
        with patch.context() as while_it_wins:
            while_it_wins.setattr(Outbox, "let_go", lambda self, task: None)
            on_won(self, commit, answer)
        assert Outbox.let_go is let_go

    patch.setattr(Committer, "_on_won", keep)


def announces_copies_under_their_own_name(patch: Patch) -> None:
    def announce(self: Outbox, owner: str, copy: Copy) -> None:
        self.later(AddCopies(TaskId(copy.file), (copy,)))

    patch.setattr(Outbox, "announce", announce)


def never_retracts_copies(patch: Patch) -> None:
    patch.setattr(Outbox, "retract", lambda self, owner, copy: None)


def takes_no_hint(patch: Patch) -> None:
    on_message = Node._on_message

    def all_but_hints(self: Node, message: Message) -> None:
        if not isinstance(message, WorkQueued):
            on_message(self, message)

    patch.setattr(Node, "_on_message", all_but_hints)


def never_unpins(patch: Patch) -> None:
    def release(self: Depot, spec: TaskSpec) -> None: ...

    patch.setattr(Depot, "release", release)


def stops_no_rivals(patch: Patch) -> None:
    patch.setattr(Committer, "_stop", lambda self, rivals, task, generation: None)


def never_commits_again(patch: Patch) -> None:
    patch.setattr(Outbox, "recommit", lambda self, commit: None)


def never_lets_go_of_the_dead(patch: Patch) -> None:
    adopt = ShardPatrol._adopt

    async def adopt_with_wrong_tickets(self: ShardPatrol, orphans: Orphans) -> None:
        await adopt(self, msgspec.structs.replace(orphans, tickets=(0,) * len(orphans.tickets)))

    patch.setattr(ShardPatrol, "_adopt", adopt_with_wrong_tickets)


APPLICATIONS = Workflows.APPLICATIONS
FORGETFUL = "forgetful=4,forget_seconds=20"

BROKEN: list[tuple[Callable[[Patch], None], str, int, str]] = [
    (reports_no_load, "none", 0, "late_load_seconds is"),
    (never_says_delivered, "none", 6, "full outboxes on shard"),
    (never_lets_go_of_what_it_won, "none", 6, "tasks held at"),
    (announces_copies_under_their_own_name, "none", 6, "store and disks disagree"),
    (never_retracts_copies, "none", 1, "store and disks disagree"),
    (takes_no_hint, "none", 0, "waited_seconds is"),
    (never_unpins, "none", 6, "pinned files at"),
    (stops_no_rivals, "none", 4, "outlived is"),
    (never_commits_again, FORGETFUL, 0, "commits forgotten and not said again"),
    (never_lets_go_of_the_dead, "crashes", 1, "taken_again is"),
]


@pytest.mark.parametrize(
    ("breaking", "faults", "seed", "betrayed_by"),
    BROKEN,
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_broken_line_that_patrols_heal_goes_red(
    monkeypatch: Patch,
    breaking: Callable[[Patch], None],
    faults: str,
    seed: int,
    betrayed_by: str,
) -> None:
    assert not try_seed(seed, "adage", faults, APPLICATIONS).problem

    breaking(monkeypatch)

    assert betrayed_by in try_seed(seed, "adage", faults, APPLICATIONS).problem


# --- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6])
def test_in_fair_weather_nothing_heals(seed: int) -> None:
    verdict = try_seed(seed, "adage", "none", APPLICATIONS)

    assert not verdict.problem
    assert verdict.healing == Healing()


def test_a_task_that_finds_no_room_is_the_only_one_to_run_again_in_fair_weather() -> None:
    verdict = try_seed(
        1, "adage", "none", APPLICATIONS
    )  # its tasks are larger than some of its disks

    assert verdict.healing.repeated > 0
    assert verdict.healing == Healing(repeated=verdict.healing.repeated)


def test_a_load_that_was_told_and_is_as_before_at_the_next_look_is_not_late() -> None:
    """Loads that count tasks are often the same again."""
    assert not try_seed(0, "matrix-flds", "none", Workflows.MIXED).problem


def test_a_crash_is_healed_and_the_healing_counted() -> None:
    trial = run_trial(
        equal_tasks(40, 60.0),
        uniform_platform(4, cores=1),
        adage(lease_seconds=10.0, validation_seconds=5.0),
        FaultPlan(crash=0.5, crash_seconds=500.0),
        seed=0,
    )

    assert trial.outcome.complete == 40
    assert trial.healing.taken_over > 0
    assert trial.healing.repeated > 0
    assert trial.healing.leases_lost == 0


def test_totals_add_up() -> None:
    one = Healing(repeated=1, waited_seconds=0.5)

    assert one + Healing(repeated=2, reopened=3) == Healing(3, reopened=3, waited_seconds=0.5)


# --- bounds --------------------------------------------------------------------------------------


def a_run(healing: Healing, **trouble: int) -> HealedRun:
    return HealedRun(healing, SeenTrouble(**trouble), tasks=10, nodes=4, renewal_seconds=5.0)


def test_everything_that_is_counted_has_a_bound() -> None:
    assert set(BOUNDS) == set(asdict(Healing()))


@pytest.mark.parametrize("name", BOUNDS)
def test_without_trouble_no_healing_is_explained(name: str) -> None:
    assert BOUNDS[name](a_run(Healing())) == 0

    with pytest.raises(InvariantBroken, match=f"{name} is 1, but what happened to seed 7"):
        check_healing(a_run(replace(Healing(), **{name: 1})), 7)


def test_a_crash_explains_no_lost_lease_and_no_late_load() -> None:
    with pytest.raises(InvariantBroken, match="leases_lost is 1"):
        check_healing(a_run(Healing(leases_lost=1), crashes=1), 7)
    with pytest.raises(InvariantBroken, match="late_load_seconds is 3"):
        check_healing(a_run(Healing(late_load_seconds=3.0), crashes=1), 7)


def test_a_node_that_died_may_owe_a_hint_to_every_node() -> None:
    check_healing(a_run(Healing(waited_seconds=20.0), crashes=1), 7)

    with pytest.raises(InvariantBroken, match="waited_seconds is 21"):
        check_healing(a_run(Healing(waited_seconds=21.0), crashes=1), 7)


def test_tasks_are_taken_from_the_dead_again_if_an_adopter_died_or_a_shard_forgot() -> None:
    again = Healing(taken_over=3, taken_again=3)

    check_healing(a_run(again, crashes=2), 7)
    check_healing(a_run(again, crashes=1, forgets=1), 7)
    with pytest.raises(InvariantBroken, match="taken_again is 3"):
        check_healing(a_run(again, crashes=1), 7)


def test_tasks_are_taken_from_nodes_that_could_not_join_but_not_from_others() -> None:
    every = Healing(taken_over=20)

    check_healing(a_run(every, partitions=1, unjoined=2), seed=0)
    for trouble in ({"unjoined": 2}, {"partitions": 1, "unjoined": 1}, {"partitions": 2}):
        with pytest.raises(InvariantBroken, match="taken_over is 20"):
            check_healing(a_run(every, **trouble), seed=0)


def test_tasks_whose_parents_ran_again_are_taken_from_the_dead_again() -> None:
    check_healing(a_run(Healing(taken_over=20, taken_again=10, reopened=1), crashes=1), 7)

    with pytest.raises(InvariantBroken, match="taken_over is 21"):
        check_healing(a_run(Healing(taken_over=21, reopened=1), crashes=1), 7)
    with pytest.raises(InvariantBroken, match="taken_over is 11"):
        check_healing(a_run(Healing(taken_over=11), crashes=1), 7)


def test_replicas_that_had_to_wait_again_may_be_sent_to_the_dead_again() -> None:
    check_healing(a_run(Healing(taken_over=12), crashes=1, postponed=2), 7)

    with pytest.raises(InvariantBroken, match="taken_over is 13"):
        check_healing(a_run(Healing(taken_over=13), crashes=1, postponed=2), 7)


def test_a_task_counts_as_reopened_even_if_the_node_died_before_it_could_tell() -> None:
    tally = HealingTally(Simulation(equal_tasks(1), uniform_platform(1), adage()))
    shard, lost = Shard(0), Reopen("t0", 1)
    begin, commit = Begin("t0", "n0.1.1", "n0"), Commit("t0", "n0.1.1", "n0", (), 1)
    for operation in (Submit(a_task("t0")), lost, begin, commit):
        tally.on_applied(operation, shard.apply(operation, 0.0), shard)
    assert not tally.reopened

    tally.on_applied(lost, shard.apply(lost, 0.0), shard)

    assert tally.reopened == {"t0"}


def test_a_reopening_that_several_replicas_tell_of_counts_once() -> None:
    tally = HealingTally(Simulation(equal_tasks(1), uniform_platform(1), adage()))

    for generation in (1, 1, 2):
        tally.on_event(TaskReopened(0.0, "t0", generation))

    assert tally.healing.reopened == 2


def test_attempts_that_are_given_up_for_nothing_are_noticed() -> None:
    with pytest.raises(InvariantBroken, match="2 attempts were given up, but nothing happened"):
        check_healing(a_run(Healing(), interrupted=2), 7)

    check_healing(a_run(Healing(), interrupted=2, full_disks=1), 7)


# --- rare paths ----------------------------------------------------------------------------------


def test_every_rare_setting_is_drawn() -> None:
    drawn = [impatient(STRATEGIES["adage"], seed).settings for seed in range(40)]

    assert {s.claim_max for s in drawn} == {1, 2, 1024}
    assert {s.patrol_limit for s in drawn} == {1, 2048}
    assert {s.transfers_max for s in drawn} == {1, 8}
    assert {s.past_entries_max for s in drawn} == {0, 1000}
    movers = [impatient(STRATEGIES["adage"], seed).mover for seed in range(40)]
    assert {mover.neighbourhood for mover in movers} == set(Neighbourhood)
    assert {mover.replication for mover in movers} == {True, False}


def test_replicas_are_few_or_many_and_made_at_once_or_after_a_moment() -> None:
    drawn = [impatient(STRATEGIES["storage-affinity"], seed) for seed in range(40)]

    assert {strategy.settings.backups_max for strategy in drawn} == {1, 2, 100}
    assert {strategy.mover.idle_seconds for strategy in drawn} == {0.0, 0.25}
