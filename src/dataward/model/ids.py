"""The names of nodes and attempts, and how to read a node from an attempt's name."""

from typing import NewType

NodeId = NewType("NodeId", str)
AttemptId = NewType("AttemptId", str)

ORIGIN = NodeId("origin")
"""Where the inputs of a workflow come from if no node has them: an edge server, or outside."""

NOWHERE = NodeId("")
"""Stands for the node that holds a file when no node does."""

CLIENT = NodeId("client")
"""Stands for the node where it is whoever submitted the tasks that has done something."""

NOBODY = AttemptId("")
"""Stands for the attempt that finished a task when there was none: a parent failed, or the task
was removed."""


def attempt_id(node: NodeId, incarnation: int, count: int) -> AttemptId:
    """The name of a node's attempt. It stays unique even if the store loses writes."""
    return AttemptId(f"{node}.{incarnation}.{count}")


def node_of(attempt: AttemptId) -> NodeId:
    """The node whose attempt this is. The node's name may contain dots."""
    return NodeId(attempt.rsplit(".", 2)[0])


def incarnation_of(attempt: AttemptId) -> int:
    """The incarnation of the node whose attempt this is."""
    return number_of(attempt)[0]


def number_of(attempt: AttemptId) -> tuple[int, int]:
    """(incarnation, count): the order of one node's attempts."""
    _, incarnation, count = attempt.rsplit(".", 2)
    return int(incarnation), int(count)
