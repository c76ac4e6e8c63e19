"""A cluster's hosts and runs, as its registry has them."""

import msgspec

from dataward.model.ids import NodeId
from dataward.model.states import RunState

__all__ = ["RUN_NAME", "ClusterRun", "Member", "RunState"]

RUN_NAME = "[a-z0-9-]{1,80}"  # it is part of paths, in requests and on disks


class Member(msgspec.Struct, frozen=True):
    """A host that is up: where it is, and what its machine can do."""

    node: NodeId
    address: str  # HOST:PORT of its HTTPS server
    cores: int
    memory_bytes: int
    incarnation: int
    speed: float = 1.0
    site: str = ""
    bytes_per_second: float = 0.0  # of its link, each way; 0: not known
    draining: bool = False  # it takes no more work, and leaves when it has none


class ClusterRun(msgspec.Struct, frozen=True):
    """A workflow that was submitted to a cluster.

    The description (all task specs and what belongs to them) is a file at the keepers: these submit
    the tasks, and submit them again where the store has lost writes.
    """

    name: str
    workflow: str
    strategy: str
    tasks: int
    submitter: str
    description: str  # the digest of the file
    keepers: tuple[NodeId, ...]
    shards: int
    submitted_at: float = 0.0  # by the server's clock, as ``ended_at``
    state: RunState = RunState.RUNNING
    ended_at: float = 0.0
    priority: float = 0.0  # lower is more urgent, as for tasks
