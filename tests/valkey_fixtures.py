"""Servers for the tests of a room: its ``conftest.py`` imports the fixtures that it wants."""

from collections.abc import Iterator

import pytest

from dataward.cluster.store_server import StoreServer
from valkey_servers import RunningServer, a_cluster, a_server, program_of


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One for all tests of a process; each test empties it first."""
    with a_server(program_of("any"), tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with a_server(program_of("redis"), tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[StoreServer]]:
    with a_cluster(program_of("any"), tmp_path_factory.mktemp("cluster")) as servers:
        yield servers
