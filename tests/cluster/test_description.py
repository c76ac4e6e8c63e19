"""What a cluster keeps of a run, packed and unpacked."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.cluster.description import RunOrders, TaskList, packed, unpacked
from dataward.errors import FormatError


def orders(**changes: object) -> RunOrders:
    plain = RunOrders("adage", (), (), False, (), {}, "t", "w")
    return msgspec.structs.replace(plain, **changes)


def test_orders_come_back_as_they_were() -> None:
    given_orders = orders(settings=("claim_max=5",), wanted=("a",))

    assert unpacked(packed(given_orders), RunOrders) == given_orders


@given(st.binary(max_size=200))
def test_what_is_no_description_is_called_that(content: bytes) -> None:
    for bytes_ in (content, zlib.compress(content)):
        with pytest.raises(FormatError, match="description"):
            unpacked(bytes_, TaskList)


def test_a_description_that_unfolds_without_end_is_refused() -> None:
    bomb = zlib.compress(b"\0" * 10_000_000)

    with pytest.raises(FormatError, match="larger than it may be"):
        unpacked(bomb, RunOrders, bytes_max=1_000_000)
