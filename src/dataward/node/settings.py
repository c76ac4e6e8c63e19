"""Everything about a node that can be set; the paper's values where it gives them."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from dataward.errors import SettingError


class Precedence(Enum):
    """Which of a node's tasks goes first, where several wait for a core or for the network."""

    ARRIVAL = "arrival"  # the first that came
    URGENCY = "urgency"  # the one with the most urgent priority

    def of(self, priority: float) -> float:
        """The urgency of a task with this priority; lower goes first."""
        return priority if self is Precedence.URGENCY else 0.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node's settings; defaults are ADAGE's, from its section IV or its public simulator."""

    lease_seconds: float = 125.0  # "heartbeat expiration period"
    validation_seconds: float = 62.5  # "half of the heartbeat expiration period"
    backups_max: int = 2  # "number of replicas for each task"
    claim_max: int = 1024  # ours: tasks taken from the store at a time
    staging_ahead: int = 1  # ours: tasks whose inputs are brought in while all cores are busy
    idle_staging: int = 0  # ours: still more tasks that may be brought in while cores are idle
    lead_seconds: float = 0.0  # ours: how much work the runner is given before cores are free
    precedence: Precedence = Precedence.ARRIVAL  # who is given a free core, or the free link
    give_way_share: float = 0.0  # ours: of its run time, a task waits for more urgent ones to stage
    transfers_max: int = 8  # ours: files a node fetches at a time
    window_bytes: float = inf  # ours: of large files on their way to a node; one may be larger
    uploads_max: int = 0  # ours: nodes that may fetch from a node at a time; 0: any number
    large_bytes: int = 10_000_000  # ours: smaller files take no part of the window
    asked_bytes: int = 1_000_000  # ours: smaller files are fetched unasked: asking takes a trip
    quickest_source: bool = False  # ours: off, a file is fetched from any node, the origin last
    silent_seconds: float = 2.0  # ours: then a node that was asked and says nothing seems dead
    ask_again_seconds: float = 10.0  # ours: pauses in which a node that wants a file says so again
    safe_bytes_per_second: float = 0.0  # ours: outputs of at most this for each second of the run
    safe_seconds: float = 10.0  # ours: and of runs at least as long are copied to another node
    shuns_dead: bool = False  # ours: on, what becomes ready does not wait in a dead node's queue
    caching: bool = True  # off: what was fetched for a task goes when no task reads it any more
    inputs_from_origin: bool = False  # on: workflow inputs come from the origin, not other nodes
    fetch_rounds: int = 3  # ours: tries at every copy before a file counts as lost
    retry_seconds: float = 0.5  # ours: between such tries, and between failed calls to the store
    retry_seconds_max: float = 10.0
    lost_input_seconds: float = 3750.0  # ours, 30 leases: then an input nobody serves is lost
    full_disk_tries: int = 30  # ours: how often a task is tried though there was no room for it
    patrol_limit: int = 2048  # ours: stuck tasks that one patrol is given
    stale_outbox_seconds: float = 10.0  # ours: when undelivered notices count as forgotten
    company_seconds: float = 0.05  # ours: how long operations that are not urgent wait for more
    outcome_seconds: float = 0.0  # ours: the same for outcomes, while the node has other work
    unawaited_seconds: float = 0.0  # ours: how much longer for outcomes that no task waits for
    load_report_share: float = 0.25  # ours: a load that changed by this share is reported
    past_entries_max: int = 1000  # ours: outdated entries that a ready queue may keep

    def __post_init__(self) -> None:
        for name in ("claim_max", "transfers_max", "fetch_rounds", "patrol_limit"):
            if getattr(self, name) < 1:
                raise SettingError(f"a node with {name} 0 would stand still; give at least 1")
        for name in (
            "lease_seconds", "validation_seconds", "retry_seconds", "ask_again_seconds",
            "lost_input_seconds",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise SettingError(f"a node with {name} 0 would never rest; give more than 0")
        if self.validation_seconds >= self.lease_seconds:
            raise SettingError(
                "validation_seconds must be below lease_seconds, or every lease would expire"
            )


def check_above_zero(mover: object, *names: str) -> None:
    """Raise SettingError if one of these settings of a mover is not above 0."""
    for name in names:
        if not getattr(mover, name) > 0:
            raise SettingError(f"with {name} 0 no task would ever be given; give more than 0")
