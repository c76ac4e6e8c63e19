"""Every test of this room runs in a plain place, and many on executors of both kinds."""

from collections.abc import Iterator

import pytest

from dataward import Executor
from plain_place import a_plain_place

__all__ = ["a_plain_place", "executor"]


@pytest.fixture(scope="module", params=["this machine", "a cluster"])
def executor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Executor]:
    """An executor with two slots: of this process, or of two nodes of a cluster."""
    if request.param == "this machine":
        with Executor(slots=2) as executor:
            yield executor
    else:
        pytest.importorskip("cryptography", reason="an interpreter without what clusters need")
        from cluster.laptops import laptop_cluster

        with (
            laptop_cluster(tmp_path_factory.mktemp("lab"), 2) as cluster,
            Executor(access=cluster.submit_access) as executor,
        ):
            yield executor
