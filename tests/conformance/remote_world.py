"""Three nodes that reach each other over HTTP and TLS, as on several machines."""

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.both_worlds import NODES, LiveWorld
from dataward.cluster.authority import Authority
from dataward.live.credentials import Credentials, Role
from dataward.live.depot_disk import Place
from dataward.live.node_server import NodeServer
from dataward.live.peer_client import PeerClient
from dataward.live.remote_network import RemoteNetwork

HOST = "127.0.0.1"


@cache
def authority() -> Authority:
    """One for all tests: to make keys takes time."""
    return Authority.found("a cluster")


@cache
def credentials_of(node: str) -> Credentials:
    return authority().issue(node, [Role.NODE])


class RemoteWorld(LiveWorld):
    """A server and a network for each node, all in one loop, so that tests run them in steps."""

    network_type: Any = RemoteNetwork

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: dict[str, str] = {}
        self._ends: dict[str, tuple[PeerClient, NodeServer]] = {}
        super().__init__(directory, monkeypatch)

    def _plug_in(self, node: str, held: dict[str, Place]) -> None:
        self.disks[node] = self._disk(node, held)
        if node in self.networks:
            self._runner.run(self._unplug(node))
        self._runner.run(self._connect(node))

    async def _connect(self, node: str) -> None:
        credentials = credentials_of(node)
        client = PeerClient(self.addresses.get, credentials)
        await client.open()
        network = self.network_type(
            node, self.kernel, self.disks[node], self._wires.outside, client, self.events.append
        )
        server = NodeServer(network.inbox, self.disks[node], credentials)
        self.addresses[node] = f"{HOST}:{await server.start(HOST)}"
        self.networks[node] = network
        self._ends[node] = (client, server)

    async def _unplug(self, node: str) -> None:
        client, server = self._ends[node]
        await self.networks[node].close()
        await client.close()
        await server.close()

    def client(self, node: str) -> PeerClient:
        return self._ends[node][0]

    async def arrival(self) -> None:
        for network in self.networks.values():
            await network.all_sent()

    def close(self) -> None:
        async def unplug_all() -> None:
            await asyncio.gather(*(self._unplug(node) for node in NODES if node in self.networks))

        self._runner.run(unplug_all())
        super().close()
