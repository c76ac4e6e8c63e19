"""The network between nodes of one process: messages go straight to inboxes, files are linked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from dataward.live.depot_disk import DepotDisk, Place
from dataward.model.events import Emit, FileMoved
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.messages import Message
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId
from dataward.world import Kernel, Queue, TransferFailed


@dataclass
class Wires:
    """The inboxes and disks of all nodes, and the files outside of any depot."""

    kernel: Kernel
    emit: Emit
    outside: Mapping[FileId, Place]
    inboxes: dict[NodeId, Queue[Message]] = field(default_factory=dict)
    disks: dict[NodeId, DepotDisk] = field(default_factory=dict)
    messages: int = 0

    def plug_in(self, node: NodeId, disk: DepotDisk) -> "LocalNetwork":
        inbox: Queue[Message] = self.kernel.queue()
        self.inboxes[node], self.disks[node] = inbox, disk
        return LocalNetwork(node, self, inbox)

    def find(self, file: FileId) -> Place | None:
        """Where a file is, on the disk of the first node that has it; None if no node has it."""
        for disk in self.disks.values():
            place = disk.where(file)
            if place is not None:
                return place
        return None

    def places(self) -> list[Place]:
        """The places of all files in depots."""
        return [p for disk in self.disks.values() for p in disk.places() if not p.outside]

    def holders(self, file: FileId) -> list[NodeId]:
        """The nodes that have a file."""
        return [node for node, disk in self.disks.items() if disk.where(file) is not None]

    def deliver(self, to: NodeId, message: Message) -> None:
        """Hand a message over to a node."""
        self.messages += 1
        self.inboxes[to].put(message)

    def spoil_elsewhere(self, file: FileId, here: DepotDisk) -> None:
        """Keep tasks on other nodes from reading a file that a task here has written to.

        Copies on all these disks are names of one file. On the disk ``here`` the runner process has
        removed the file already, and it may have been made again since.
        """
        for disk in self.disks.values():
            if disk is not here:
                disk.spoil(file)

    def at(self, file: FileId, source: NodeId) -> Place | None:
        """Where a file is on one node's disk, or outside."""
        if source == ORIGIN:
            return self.outside.get(file)
        return self.disks[source].where(file)


@dataclass
class LocalNetwork:
    node: NodeId
    wires: Wires
    inbox: Queue[Message]
    together_bytes: int = 0  # to link a file takes no trip

    def doubts(self, node: NodeId) -> bool:
        """All nodes are in this process, so they are there."""
        return False

    def send(self, to: NodeId, message: Message) -> None:
        self.wires.deliver(to, message)

    def expected_rate(self, source: NodeId) -> float | None:
        return None  # on one machine files are linked or copied, not sent

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        began = monotonic()
        place = self.wires.at(file.id, source)
        if place is None:
            raise TransferFailed(f"{source} has no {file.id!r}")
        if file.digest and place.digest != file.digest:
            raise TransferFailed(f"{source} has a different {file.id!r}")
        self.wires.disks[self.node].copy_from(file.id, place, file.producer or file.id)
        now = self.wires.kernel.now()
        self.wires.emit(
            FileMoved(now, file.id, source, self.node, place.size_bytes, monotonic() - began)
        )
