"""Three nodes that reach each other over HTTP and TLS, as on several machines."""

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.both_worlds import NODES, LiveWorld
from dataward.cluster.authority import Authority
from dataward.live.credentials import Credentials, Role
from dataward.live.depot_disk import Place
from dataward.live.node_server import NodeServer, ServerSettings
from dataward.live.peer_client import PeerClient
from dataward.live.remote_network import RemoteNetwork
from dataward.model.messages import Message
from dataward.world import Queue

HOST = "127.0.0.1"
RUN = "a-run"


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
        self.taken: dict[str, Place] = {}  # by digest: what was put to any node
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
            node,
            RUN,
            self.kernel,
            self.disks[node],
            self._wires.outside,
            client,
            self.events.append,
        )
        self.networks[node] = network
        server = self.server(node, credentials)
        self.addresses[node] = f"{HOST}:{await server.start(HOST)}"
        self._ends[node] = (client, server)

    def server(
        self, node: str, credentials: Credentials | None, settings: ServerSettings | None = None
    ) -> NodeServer:
        """A server for a node's messages and files, not started yet."""
        network, disk = self.networks[node], self.disks[node]

        def mailbox(run: str) -> Queue[Message] | None:
            return network.inbox if run == RUN else None

        def find(digest: str) -> Place | None:
            held = [place for place in disk.places() if place.digest == digest]
            return self.taken.get(digest) or (held[0] if held else None)

        def take(path: str, size_bytes: int, digest: str) -> None:
            own = f"{self.directory}/taken-{digest}"
            os.rename(path, own)
            self.taken[digest] = Place(own, size_bytes, digest, True)

        return NodeServer(mailbox, find, disk.path_for_incoming, take, credentials, settings)

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
