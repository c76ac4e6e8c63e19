"""Nodes on addresses of their own: network namespaces, joined by a bridge in this one.

This process must be in a network namespace of its own already (`enter` sees to it), so nothing of
the machine's network changes. Everything is removed at the end.
"""

import os
import shutil
import subprocess
import sys
from secrets import token_hex

from dataward.model.ids import NodeId

NETWORK = "10.98.0"
HUB = f"{NETWORK}.254"
ENTERED = "DATAWARD_CHAOS_ENTERED"


def can_enter() -> bool:
    """Whether there may be namespaces: for root, with the commands that make them."""
    commands = all(shutil.which(name) for name in ("ip", "unshare"))
    tried = commands and os.geteuid() == 0
    return tried and not subprocess.run(["unshare", "--net", "true"], check=False).returncode


def enter(words: list[str]) -> None:
    """Become the same program in a namespace of its own, unless it is there already."""
    if not os.environ.get(ENTERED):
        command = ["unshare", "--net", "--", sys.executable, *words]
        os.execvpe(command[0], command, {**os.environ, ENTERED: "1"})


class Lan:
    """Gives each node a namespace; ``cut`` one off, or ``heal`` it."""

    def __init__(self, nodes: list[NodeId]) -> None:
        self._token = token_hex(3)
        self._addresses = {node: f"{NETWORK}.{i}" for i, node in enumerate(nodes, 1)}

    def open(self) -> None:
        _do("ip", "link", "set", "lo", "up")
        _do("ip", "link", "add", "name", "bridge0", "type", "bridge")
        _do("ip", "address", "add", f"{HUB}/24", "dev", "bridge0")
        _do("ip", "link", "set", "bridge0", "up")
        for node, address in self._addresses.items():
            space = self._space(node)
            _do("ip", "netns", "add", space)
            veth = ("type", "veth", "peer", "name", "eth0", "netns", space)
            _do("ip", "link", "add", "name", f"port-{node}", *veth)
            _do("ip", "link", "set", f"port-{node}", "master", "bridge0", "up")
            within = ("ip", "netns", "exec", space)
            _do(*within, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _do(*within, "ip", "link", "set", device, "up")

    def close(self) -> None:
        for node in self._addresses:
            subprocess.run(["ip", "netns", "delete", self._space(node)], check=False)

    def command_of(self, node: NodeId, command: list[str]) -> list[str]:
        """The command of a node, run in its namespace."""
        listen = ["--listen", f"{self._addresses[node]}:0"]
        return ["ip", "netns", "exec", self._space(node), *command, *listen]

    def cut(self, node: NodeId) -> None:
        """Pull the plug: nothing comes or goes, and nobody is told."""
        _do("ip", "link", "set", f"port-{node}", "down")

    def heal(self, node: NodeId) -> None:
        _do("ip", "link", "set", f"port-{node}", "up")

    def _space(self, node: NodeId) -> str:
        return f"dataward-{self._token}-{node}"


def _do(*command: str) -> None:
    subprocess.run(command, check=True)
