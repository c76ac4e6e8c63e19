"""Where a task should run, as plain functions over what is known."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dataward.model.operations import Copy, InputFile, NodeId
from dataward.model.workflow import FileId


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that might take a task."""

    node: NodeId
    missing_bytes: int
    load_seconds: float


def missing_bytes(inputs: Iterable[InputFile], held: Collection[FileId]) -> int:
    return sum(file.size_bytes for file in inputs if file.id not in held)


def candidates_for(
    inputs: Sequence[InputFile], copies: Iterable[Copy], loads: Mapping[NodeId, float]
) -> list[Candidate]:
    """Each of the nodes in ``loads``, with the bytes it would have to bring in."""
    held: dict[NodeId, set[FileId]] = {}
    for copy in copies:
        held.setdefault(copy.node, set()).add(copy.file)
    return [
        Candidate(node, missing_bytes(inputs, held.get(node, ())), load)
        for node, load in loads.items()
    ]


def best_node(candidates: Sequence[Candidate]) -> NodeId:
    """The node that would wait least for the files it does not hold.

    ADAGE's Listing 3 prints this comparison inverted; the paper's text is followed. All nodes of a
    cluster have equal links, so bytes stand for seconds. Equal waits go to the less loaded node,
    then to the lowest id, so that a run replays exactly.
    """
    return min(candidates, key=lambda c: (c.missing_bytes, c.load_seconds, c.node)).node
