"""Which other node may soon have a file that the origin has, so that one fetches it for both.

Nodes that fetch one file from a slow origin at once share its link, and all have the file late. A
plan may say that one of them sends the file on to the other. And whoever was asked for a file in
vain knows of a node that fetches it elsewhere.

A node lets another wait for a file only while the file is on its way here, so that two nodes never
wait for each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dataward.model.ids import NodeId
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId


@dataclass
class Relays:
    """Files on their way here, and nodes that have asked here for files in vain."""

    _coming: set[FileId] = field(default_factory=set)
    _seekers: dict[FileId, NodeId] = field(default_factory=dict)  # who asked last

    def is_coming(self, file: FileId) -> bool:
        """Whether a transfer of the file to this node is under way."""
        return file in self._coming

    @contextmanager
    def coming(self, file: FileId) -> Iterator[None]:
        self._coming.add(file)
        try:
            yield
        finally:
            self._coming.discard(file)

    def sought(self, file: FileId, node: NodeId) -> None:
        """Note that a node wants a file that is neither here nor on its way here."""
        self._seekers[file] = node

    def to_ask(self, file: InputFile, here: NodeId) -> list[NodeId]:
        """The nodes that are to be asked for a file before the origin is."""
        nodes = (file.relay, self._seekers.get(file.id, ""))
        return list(dict.fromkeys(NodeId(node) for node in nodes if node and node != here))
