"""A cluster's hosts and runs, as its registry has them."""

import msgspec

from dataward.model.ids import NodeId
from dataward.model.states import RunState

__all__ = ["RUN_NAME", "ClusterRun", "Member", "RunPromise", "RunState"]

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


class RunPromise(msgspec.Struct, frozen=True):
    """By when a run was asked to end, and by when hosts have promised it; by the server's clock.

    If the promise is ``broken``, as a sentence says, ``finish`` is later than the deadline, or 0 if
    no host promises anything any more.
    """

    deadline: float
    finish: float
    sure: float = 0.0  # how likely it was to be kept, when it was given; 0: nothing is promised
    expected: float = 0.0  # by when the run should end, as likely later as earlier
    part: str = ""  # the digest of what each task was promised
    broken: str = ""

    def late_seconds(self, ended_at: float) -> float:
        """How long after its deadline the run ended; 0 if it was in time."""
        return max(ended_at - self.deadline, 0.0)


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
    promise: RunPromise | None = None
    skipped: int = 0  # of the tasks: their outcomes were known, and the store never has them
