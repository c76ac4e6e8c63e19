"""One simulated machine: its disk, which survives a crash, and its node, which does not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from dataward.kernel.fibers import VirtualFiber, VirtualFlag
from dataward.kernel.virtual import VirtualKernel
from dataward.model.operations import Commit, InputFile
from dataward.model.platform import Machine
from dataward.model.workflow import FileId
from dataward.node.node import Node
from dataward.world import StoredFile


@dataclass
class DiskContents:
    """A disk's contents: file sizes and producers, and the journal of acknowledged commits.

    ``unsafe`` files have been written but not synced, and are lost when the power goes. ``earlier``
    has the digests of files that an earlier run left and that no node has asked for yet.
    """

    files: dict[FileId, StoredFile] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    used_bytes: int = 0
    unsafe: dict[FileId, None] = field(default_factory=dict)
    earlier: dict[FileId, str] = field(default_factory=dict)

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
            self.unsafe.pop(file, None)

    def keep(self, file: FileId) -> None:
        self.files[file] = msgspec.structs.replace(self.files[file], kept=True)

    def write(self, file: FileId, size_bytes: int, owner: str, digest: str) -> None:
        """Put a file that a task wrote on the disk; until `sync`, a power cut takes it away."""
        self.put(file, size_bytes, owner, written=True, digest=digest)
        self.unsafe[file] = None

    @property
    def unsafe_bytes(self) -> int:
        return sum(self.files[file].size_bytes for file in self.unsafe)

    def sync(self, files: Sequence[FileId]) -> None:
        """These are safe now; what was written meanwhile is not."""
        for file in files:
            self.unsafe.pop(file, None)

    def lose_power(self) -> None:
        for file in list(self.unsafe):
            self.remove(file)


@dataclass
class SimMachine:
    """A machine with power on or off. ``slowdown`` above 1 makes everything it does slower."""

    spec: Machine
    kernel: VirtualKernel
    speed_changed: VirtualFlag
    stored: DiskContents = field(default_factory=DiskContents)
    up: bool = True
    serves: bool = True
    slowdown: float = 1.0
    capacity_bytes: float = 0.0
    incarnation: int = 0
    node: Node | None = None
    fibers: dict[int, VirtualFiber[Any]] = field(default_factory=dict)
    _spawned: int = 0

    def __post_init__(self) -> None:
        self.capacity_bytes = self.spec.capacity_bytes

    @property
    def speed(self) -> float:
        return self.spec.speed / self.slowdown

    def fill_up(self) -> None:
        """Leave no free room on the disk, and none for what was not synced yet."""
        self.capacity_bytes = self.stored.used_bytes - self.stored.unsafe_bytes

    def empty_out(self) -> None:
        """Make the disk's full capacity available again."""
        self.capacity_bytes = self.spec.capacity_bytes

    def change_speed(self, slowdown: float) -> None:
        self.slowdown = slowdown
        self.speed_changed.set()
        self.speed_changed.clear()

    def remember(self, fiber: VirtualFiber[Any]) -> None:
        """Keep a fiber, to kill it in a crash; now and then, forget fibers that are done."""
        self._spawned += 1
        self.fibers[self._spawned] = fiber
        if self._spawned % 256 == 0:
            self.fibers = {n: f for n, f in self.fibers.items() if not f.done()}

    def spoil(self, random: Random) -> FileId | None:
        """A file that a task wrote, now removed without telling the node; None if there is none."""
        found = [file.id for file in self.stored.files.values() if file.owner != file.id]
        if not found:
            return None
        file = random.choice(found)
        self.stored.remove(file)
        return file

    def missing(self, files: Iterable[InputFile]) -> list[InputFile]:
        """The files that tasks wrote and that are not on the disk."""
        return [file for file in files if file.producer and file.id not in self.stored.files]

    def boot(self, node: Node) -> None:
        """Power the machine on, with this node."""
        self.up = True
        self.node = node
        node.start()

    def crash(self) -> None:
        """Power the machine off: the node stops at once, and only synced files remain."""
        self.up = False
        self.stored.lose_power()
        if self.node is not None:
            self.incarnation = self.node.incarnation
        for fiber in self.fibers.values():
            self.kernel.kill(fiber)
        self.fibers.clear()
        self.node = None
