"""One simulated machine: what survives a crash, and what does not."""

from dataclasses import dataclass, field
from typing import Any

from dataward.kernel.fibers import VirtualFiber, VirtualFlag
from dataward.kernel.virtual import VirtualKernel
from dataward.model.operations import Commit
from dataward.model.platform import Machine
from dataward.model.workflow import FileId
from dataward.node.node import Node
from dataward.world import StoredFile


@dataclass
class Stored:
    """A disk's contents: file sizes and producers, and the journal of acknowledged commits."""

    files: dict[FileId, StoredFile] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    used_bytes: int = 0

    def put(
        self, file: FileId, size_bytes: int, owner: str, *, written: bool, digest: str = ""
    ) -> None:
        self.remove(file)
        self.files[file] = StoredFile(file, size_bytes, owner, written, digest)
        self.used_bytes += size_bytes

    def remove(self, file: FileId) -> None:
        held = self.files.pop(file, None)
        if held is not None:
            self.used_bytes -= held.size_bytes


@dataclass
class Host:
    """A machine with power on or off. ``slowdown`` above 1 makes everything it does slower."""

    machine: Machine
    kernel: VirtualKernel
    speed_changed: VirtualFlag
    stored: Stored = field(default_factory=Stored)
    up: bool = True
    serves: bool = True
    slowdown: float = 1.0
    capacity_bytes: float = 0.0
    incarnation: int = 0
    node: Node | None = None
    fibers: dict[int, VirtualFiber[Any]] = field(default_factory=dict)
    _spawned: int = 0

    def __post_init__(self) -> None:
        self.capacity_bytes = self.machine.capacity_bytes

    @property
    def speed(self) -> float:
        return self.machine.speed / self.slowdown

    def change_speed(self, slowdown: float) -> None:
        self.slowdown = slowdown
        self.speed_changed.set()
        self.speed_changed.clear()

    def remember(self, fiber: VirtualFiber[Any]) -> None:
        """Keep a fiber to kill it in a crash; now and then, forget those that are done."""
        self._spawned += 1
        self.fibers[self._spawned] = fiber
        if self._spawned % 256 == 0:
            self.fibers = {n: f for n, f in self.fibers.items() if not f.done()}

    def crash(self) -> None:
        """Power off: nothing of the node runs any more, and only the disk remains."""
        self.up = False
        if self.node is not None:
            self.incarnation = self.node.identity.incarnation
        for fiber in self.fibers.values():
            self.kernel.kill(fiber)
        self.fibers.clear()
        self.node = None
