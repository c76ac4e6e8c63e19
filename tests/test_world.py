"""The members of a run: a list that knows places, and changes in place."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.ids import NodeId
from dataward.world import Members

names = st.lists(st.sampled_from([NodeId(f"n{i}") for i in range(12)]), min_size=1)


@given(names, names)
def test_members_answer_as_a_list_of_the_same_nodes_does_before_and_after_a_change(
    first: list[NodeId], then: list[NodeId]
) -> None:
    members = Members(first)
    for nodes in (first, then):
        members.become(nodes)
        plain = list(dict.fromkeys(nodes))
        assert members == plain
        assert [members.index(node) for node in plain] == list(range(len(plain)))
        assert all(node in members for node in plain)
        assert Random(1).sample(members, 1) == Random(1).sample(plain, 1)


def test_a_node_that_has_left_is_no_member_and_has_no_place() -> None:
    members = Members([NodeId("a"), NodeId("b")])

    members.become([NodeId("b")])

    assert NodeId("a") not in members
    with pytest.raises(ValueError, match="no member"):
        members.index(NodeId("a"))


def test_a_place_outside_the_range_asked_for_is_none() -> None:
    members = Members([NodeId("a"), NodeId("b")])

    assert members.index(NodeId("b"), 1) == 1
    with pytest.raises(ValueError, match="no member"):
        members.index(NodeId("b"), 0, 1)


def test_watchers_are_told_of_changes_and_of_nothing_else() -> None:
    members, told = Members([NodeId("a")]), list[int]()
    members.watch(lambda: told.append(len(members)))

    members.become([NodeId("a")])
    members.become([NodeId("a"), NodeId("b")])

    assert told == [2]


def test_newcomers_are_those_that_were_not_there_at_first() -> None:
    members = Members([NodeId("a"), NodeId("b")])

    members.become([NodeId("c"), NodeId("a")])
    members.become([NodeId("d"), NodeId("c"), NodeId("a"), NodeId("b")])

    assert members.newcomers == ["d", "c"]


def test_whoever_says_that_there_is_no_node_is_not_heeded() -> None:
    members = Members([NodeId("a")])

    members.become([])

    assert members == ["a"]
