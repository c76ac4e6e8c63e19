"""A node's policy follows how much data its tasks wait for."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.events import PolicyChanged
from dataward.model.operations import Shelf
from dataward.node.learned import Learned
from dataward.node.switching import Policy, SwitchingStealing, moved_between, next_policy
from node.fake_world import FakeWorld, a_queue_entry

MLB, FLDS, MDL = Policy.MLB, Policy.FLDS, Policy.MDL


def after(*moved: float) -> list[Policy]:
    """The policies of a node that started with FLDS, after each such share of moving."""
    settings = SwitchingStealing(much_moved=1.0, little_moved=0.1)
    policies = [FLDS]
    for share in moved:
        policies.append(next_policy(policies[-1], share, settings))
    return policies[1:]


def test_much_data_leads_to_mdl_and_little_to_mlb() -> None:
    assert after(1.1) == [MDL]
    assert after(0.09) == [MLB]


def test_in_between_nothing_changes() -> None:
    assert after(0.1, 0.5, 1.0) == [FLDS, FLDS, FLDS]


def test_a_node_goes_one_step_at_a_time_and_no_further_than_the_ends() -> None:
    assert after(9.0, 9.0, 0.0, 0.0, 0.0, 9.0) == [MDL, MDL, FLDS, MLB, MLB, FLDS]


@given(st.sampled_from(Policy), st.floats(0, 100), st.floats(0, 100))
def test_more_data_never_leads_to_a_policy_that_moves_more(
    policy: Policy, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    order, settings = list(Policy), SwitchingStealing()

    found = [order.index(next_policy(policy, moved, settings)) for moved in (less, more)]

    assert found == sorted(found)


def test_what_counts_is_what_was_moved_since_the_last_choice() -> None:
    before = Learned(tasks=5, run_seconds=100.0, moving_seconds=50.0)
    now = Learned(tasks=6, run_seconds=110.0, moving_seconds=55.0)

    assert moved_between(before, now) == pytest.approx(0.5)
    assert moved_between(now, now) == 0.0


# --- at a node -----------------------------------------------------------------------------------


class Place(FakeWorld):
    """Node n0, whose mover runs and chooses anew after two tasks, while a task waits there."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=1)
        mover = SwitchingStealing(**{"switch_tasks": 2, "look_seconds": 1.0, **settings})
        for loop in mover.at(self.parts).loops():
            self.start(loop)
        self.state.queue.put(a_queue_entry("waits"))

    def runs(self, tasks: int, *, moving_seconds: float) -> None:
        for _ in range(tasks):
            self.state.learned.moved(moving_seconds, 1)
            self.state.learned.ran(1.0)
        self.pass_time(1.0)

    def changes(self) -> list[str]:
        return [event.policy for event in self.told(PolicyChanged)]


def test_a_node_starts_with_the_home_rules_own_threshold() -> None:
    assert Place().state.learned.threshold is None


def test_a_node_whose_tasks_wait_for_data_shares_none_that_have_any() -> None:
    place = Place()

    place.runs(2, moving_seconds=5.0)

    assert place.changes() == ["mdl"]
    assert place.told(PolicyChanged)[0].moved == pytest.approx(5.0)
    assert place.state.learned.threshold == 0.0
    assert not place.state.learned.may_share


def test_a_node_whose_tasks_wait_for_nothing_shares_all() -> None:
    place = Place()

    place.runs(2, moving_seconds=0.0)

    assert place.changes() == ["mlb"]
    assert place.state.learned.threshold == inf
    assert place.state.learned.may_share


def test_a_node_that_goes_back_follows_the_home_rule_again() -> None:
    place = Place()
    place.runs(2, moving_seconds=5.0)

    place.runs(2, moving_seconds=0.0)

    assert place.changes() == ["mdl", "flds"]
    assert place.state.learned.threshold is None
    assert place.state.learned.may_share


def test_too_few_tasks_change_nothing() -> None:
    place = Place(switch_tasks=3)

    place.runs(2, moving_seconds=5.0)
    assert place.changes() == []
    place.runs(1, moving_seconds=5.0)

    assert place.changes() == ["mdl"]


def test_under_mdl_tasks_that_wait_too_long_stay_and_under_flds_they_are_shared() -> None:
    place = Place(tt_seconds=0.5)
    place.runs(2, moving_seconds=5.0)
    for task in "abcd":
        place.state.queue.put(a_queue_entry(task, shelf=Shelf.KEPT))
    place.pass_time(5.0)
    assert place.state.queue.kept == 4

    place.runs(2, moving_seconds=0.0)
    place.pass_time(5.0)

    assert place.state.queue.kept < 4
