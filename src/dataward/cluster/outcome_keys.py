"""By what an outcome is known in a cluster: how the task is run, and what it reads, by content.

The ids of tasks and runs do not matter: whoever runs the same on the same has the same outcome.
"""

from collections.abc import Iterable, Mapping

import msgspec
from blake3 import blake3

from dataward.model.ids import NodeId
from dataward.model.operations import OutputFile, TaskSpec
from dataward.model.workflow import FileId
from dataward.runs.outcomes import recipe_of

KEEP_SECONDS = 90 * 86_400.0  # an outcome that nobody has asked for for so long is forgotten


class KnownOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What a task wrote, how long it ran, and the node that has it."""

    outputs: tuple[OutputFile, ...]
    seconds: float
    node: NodeId


def outcome_key(recipe: str, inputs: Iterable[tuple[FileId, str]]) -> str:
    return blake3(msgspec.msgpack.encode((recipe, sorted(inputs)))).hexdigest(20)


def key_of_run(spec: TaskSpec, read: Mapping[FileId, str]) -> str:
    """The key of what a task has just made of these inputs."""
    recipe = recipe_of(spec.command, [file.id for file in spec.outputs], spec.launch)
    return outcome_key(recipe, read.items())


def packed_outcome(outcome: KnownOutcome) -> bytes:
    return msgspec.msgpack.encode(outcome)


def unpacked_outcome(content: bytes | None) -> KnownOutcome | None:
    """The outcome that was remembered; None if there is none, or it cannot be read."""
    if content is None:
        return None
    try:
        return msgspec.msgpack.decode(content, type=KnownOutcome)
    except (msgspec.MsgspecError, ValueError):
        return None
