"""What has gone from a depot is listed until a keeper knows of it."""

from dataward.model.workflow import FileId
from dataward.node.evictions import Evictions

A, B, C = FileId("a"), FileId("b"), FileId("c")


def test_what_went_is_listed_in_order_and_what_came_again_is_not() -> None:
    evictions = Evictions()
    for file in (B, A, C):
        evictions.went(file)

    evictions.came(A)

    assert evictions.files() == (B, C)


def test_what_a_keeper_knows_is_listed_no_more_until_it_goes_again() -> None:
    evictions = Evictions()
    evictions.went(A)
    evictions.went(B)

    evictions.forget([A, C])
    assert evictions.files() == (B,)

    evictions.came(A)
    evictions.went(A)
    assert evictions.files() == (B, A)
