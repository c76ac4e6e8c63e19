"""The store's tests can fail: take one guard out of the rules and the tests that state it go red.

Seeds of simulation notice the same (``tests/sim/test_mutations.py``), but do not say which rule is
broken. Here each guard is named with the tests of the conformance suite that state it.
"""

from collections.abc import Callable
from itertools import product

import pytest

from conformance import test_store as rules
from conformance.store_cases import Asker, HandClock, run_alone
from dataward.stores.memory import MemoryStore
from dataward.stores.shard import Shard
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

Rule = Callable[[Asker], None]

GUARDS: dict[type[Shard], list[Rule]] = {
    WithoutFence: [
        rules.test_an_attempt_whose_lease_was_taken_over_does_not_commit,
        rules.test_a_fence_holds_for_earlier_incarnations_too,
        rules.test_an_earlier_fence_that_comes_late_does_not_lift_a_later_one,
        rules.test_a_node_that_came_back_begins_anew_and_its_past_life_is_void,
    ],
    CountsNotices: [
        rules.test_a_notice_told_many_times_counts_once,
        rules.test_a_notice_of_an_earlier_generation_does_not_stand_for_another_parent,
        rules.test_a_postponed_task_waits_for_the_next_generation_of_its_parent,
    ],
    NeverRedelivers: [
        rules.test_a_patrol_has_what_it_finds_to_itself_for_a_short_while,
        rules.test_an_outbox_that_nobody_can_empty_does_not_keep_others_from_being_found,
        rules.test_word_that_an_earlier_generation_was_told_does_not_empty_the_outbox,
        rules.test_a_reopened_task_is_found_until_it_is_placed,
    ],
    OrphansTheLiving: [
        rules.test_tasks_are_orphans_only_after_their_nodes_lease_has_expired,
        rules.test_one_renewal_keeps_everything_a_node_holds,
    ],
    SeizesTheLiving: [
        rules.test_a_node_is_declared_dead_only_once_its_lease_has_expired,
    ],
    CommitsTwice: [
        rules.test_the_first_commit_wins_and_later_ones_are_told_so,
        rules.test_two_commits_in_one_batch_have_one_winner,
    ],
    ForgetsClaims: [
        rules.test_a_claim_repeated_is_answered_alike_and_takes_nothing_more,
        rules.test_a_claim_that_comes_after_a_later_one_takes_nothing,
    ],
    CompletesTheRemoved: [
        rules.test_a_removed_task_never_completes,
        rules.test_nothing_a_removed_tasks_attempt_does_has_any_effect,
    ],
    SparesTheYoung: [
        rules.test_a_child_that_waits_is_removed_when_it_hears_of_its_parents_removal,
        rules.test_the_one_who_removed_a_child_is_answered_alike_when_it_asks_again,
        rules.test_a_child_is_removed_once_however_many_parents_are,
        rules.test_a_removed_parent_removes_a_completed_child_that_must_run_again_without_it,
    ],
}

each_guard_and_rule = pytest.mark.parametrize(
    ("broken", "rule"),
    [pair for broken, stated in GUARDS.items() for pair in product([broken], stated)],
    ids=lambda each: each.__name__.removeprefix("test_"),
)


def a_store_of(make_shard: type[Shard], shards: int) -> Asker:
    clock = HandClock()
    return Asker(MemoryStore(clock, shards, make_shard), clock, run_alone)


def test_every_broken_shard_is_held_against_a_rule() -> None:
    assert set(GUARDS) == set(BROKEN_SHARDS)


@pytest.mark.parametrize("shards", [1, 5])
@each_guard_and_rule
def test_without_a_guard_the_tests_that_state_it_fail(
    broken: type[Shard], rule: Rule, shards: int
) -> None:
    store = a_store_of(broken, shards)

    with pytest.raises(AssertionError):
        rule(store)


@pytest.mark.parametrize("shards", [1, 5])
@each_guard_and_rule
def test_with_the_guard_the_same_tests_pass(broken: type[Shard], rule: Rule, shards: int) -> None:
    store = a_store_of(Shard, shards)

    rule(store)
