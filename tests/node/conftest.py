"""What the tests of a node's components start, ends with each test."""

from collections.abc import Iterator

import pytest

from node.fake_world import WORLDS


@pytest.fixture(autouse=True)
def _every_fiber_ends() -> Iterator[None]:
    yield
    while WORLDS:
        WORLDS.pop().kernel.close()
