"""Which outputs are copied to another node at once, lest they have to be made again."""

from collections.abc import Iterable, Sequence
from random import Random

from dataward.model.ids import NodeId
from dataward.model.operations import InputFile, OutputFile
from dataward.model.workflow import TaskId
from dataward.node.settings import NodeSettings


def worth_a_copy(
    task: TaskId, outputs: Iterable[OutputFile], seconds: float, settings: NodeSettings
) -> tuple[InputFile, ...]:
    """The outputs of a task that ran for so long, if all are quickly moved beside that.

    If its only copy is on a node that goes down, the task runs again, and with it perhaps those
    before it.
    """
    files = tuple(
        InputFile(file.id, file.size_bytes, task, file.digest)
        for file in outputs
        if file.size_bytes
    )
    moved_bytes = sum(file.size_bytes for file in files)
    is_dear = seconds >= settings.safe_seconds
    return files if is_dear and moved_bytes <= seconds * settings.safe_bytes_per_second else ()


def safekeeper(here: NodeId, nodes: Sequence[NodeId], random: Random) -> NodeId | None:
    """The node that keeps a second copy: any other; None if there is no other."""
    others = len(nodes) - (here in nodes)
    if others < 1:
        return None
    while (node := random.choice(nodes)) == here:
        pass
    return node
