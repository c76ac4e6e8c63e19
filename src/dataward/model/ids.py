"""How nodes and attempts are named, and what an attempt's name tells."""

from typing import NewType

NodeId = NewType("NodeId", str)
AttemptId = NewType("AttemptId", str)

ORIGIN = NodeId("origin")
"""Where the inputs of a workflow come from if no node has them: an edge server, or outside."""

NOBODY = AttemptId("")
"""The attempt that finished a task whose parent failed: there was none."""


def attempt_id(node: NodeId, incarnation: int, count: int) -> AttemptId:
    """The name of a node's attempt: never given twice, whatever the store forgets."""
    return AttemptId(f"{node}.{incarnation}.{count}")


def node_of(attempt: AttemptId) -> NodeId:
    """The node whose attempt this is. Its name may contain dots."""
    return NodeId(attempt.rsplit(".", 2)[0])


def incarnation_of(attempt: AttemptId) -> int:
    """The incarnation of the node whose attempt this is."""
    return number_of(attempt)[0]


def number_of(attempt: AttemptId) -> tuple[int, int]:
    """Incarnation and count, which order the attempts of one node."""
    _, incarnation, count = attempt.rsplit(".", 2)
    return int(incarnation), int(count)
