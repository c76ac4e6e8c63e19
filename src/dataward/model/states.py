"""The life of a task: ADAGE's Table 3, and the transitions its Figure 2 allows. And of a run."""

from enum import Enum


class TaskState(Enum):
    WAITING = "waiting"  # some parent has not committed
    READY = "ready"  # may run; waits for a node to begin it
    STAGE_IN = "stage-in"  # its inputs are being brought in
    RUNNING = "running"
    STAGE_OUT = "stage-out"  # its outputs are being written
    COMPLETE = "complete"
    FAILED = "failed"
    REMOVED = "removed"  # somebody wanted it no longer, or a task it depends on

    # Enum's own __hash__ is slow Python, and states are looked up about thirty times per task.
    __hash__ = object.__hash__


# Figure 2 draws the life of a task to which nothing goes wrong. Four things happen that the
# figure omits; each adds the transitions in the table named after it.
_FIGURE_2 = {
    TaskState.WAITING: {TaskState.READY},
    TaskState.READY: {TaskState.STAGE_IN},
    TaskState.STAGE_IN: {TaskState.RUNNING},
    TaskState.RUNNING: {TaskState.STAGE_OUT, TaskState.FAILED},
    TaskState.STAGE_OUT: {TaskState.COMPLETE},
    TaskState.COMPLETE: set(),
    TaskState.FAILED: set(),
    TaskState.REMOVED: set(),
}
_CASCADE = {
    # A parent failed. Or the task itself failed, and the store heard of the failure before it heard
    # that the task was running, or while it knew of another attempt that was further on.
    TaskState.WAITING: {TaskState.FAILED},
    TaskState.READY: {TaskState.FAILED},
    TaskState.STAGE_IN: {TaskState.FAILED},
    TaskState.STAGE_OUT: {TaskState.FAILED},
}
_ATTEMPT_LOST = {
    # The node died or gave up, or the task failed and is tried again: back to the state of the
    # furthest remaining attempt, or to ready if there is none.
    TaskState.STAGE_IN: {TaskState.READY},
    TaskState.RUNNING: {TaskState.READY, TaskState.STAGE_IN},
    TaskState.STAGE_OUT: {TaskState.READY, TaskState.STAGE_IN, TaskState.RUNNING},
}
_DATA_LOST = {
    # Every copy of an output is gone: its producer is reopened, its consumer waits again.
    TaskState.COMPLETE: {TaskState.READY},
    TaskState.READY: {TaskState.WAITING},
    TaskState.STAGE_IN: {TaskState.WAITING},
    TaskState.RUNNING: {TaskState.WAITING},
    TaskState.STAGE_OUT: {TaskState.WAITING},
}
_REMOVAL = {
    # Whoever submitted the task does not want it any more, wherever it is.
    TaskState.WAITING: {TaskState.REMOVED},
    TaskState.READY: {TaskState.REMOVED},
    TaskState.STAGE_IN: {TaskState.REMOVED},
    TaskState.RUNNING: {TaskState.REMOVED},
    TaskState.STAGE_OUT: {TaskState.REMOVED},
}

ALLOWED: dict[TaskState, frozenset[TaskState]] = {
    state: frozenset().union(
        *(
            table.get(state, set())
            for table in (_FIGURE_2, _CASCADE, _ATTEMPT_LOST, _DATA_LOST, _REMOVAL)
        )
    )
    for state in TaskState
}

PROGRESS = {
    TaskState.READY: 0,
    TaskState.STAGE_IN: 1,
    TaskState.RUNNING: 2,
    TaskState.STAGE_OUT: 3,
}
"""How far an attempt has come; a task's state is that of its furthest attempt."""


class AttemptOutcome(Enum):
    """How an attempt ended. Nodes report the first seven; reports infer the others."""

    WON = "won"  # it was committed
    LOST = "lost"  # another attempt was committed, or the node's lease had expired
    CANCELLED = "cancelled"
    FAILED = "failed"  # by the task's own error
    RELEASED = "released"  # the node could not go on with it
    SENT_ON = "sent on"  # it waited for a core, and another node starts the task sooner
    POSTPONED = "postponed"  # until an input is made again
    CRASHED = "crashed"  # its node crashed
    FORGOTTEN = "forgotten"  # its node came back as another incarnation
    CUT_OFF = "cut off"  # it had not ended when the run ended
    UNDER_WAY = "under way"  # the events so far have no end for it

    __hash__ = object.__hash__


class RunState(Enum):
    """How far a run has come."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    PARTIAL = "partial"  # tasks were removed on request; all others are complete
    CANCELLED = "cancelled"  # whoever submitted it to a cluster does not want it any more
    INTERRUPTED = "interrupted"
    KILLED = "killed"  # never written: run.json says running, but the process is gone

    __hash__ = object.__hash__


class FailureCause(Enum):
    """What made an attempt fail."""

    TASK = "task"  # the task itself: its exit code, its exception, a missing output
    TIME_LIMIT = "time limit"
    PROCESS_DIED = "process died"  # the runner process in which the task ran
    DISK = "disk"  # the outputs could not be written to the disk for good


FINAL = frozenset({TaskState.COMPLETE, TaskState.FAILED, TaskState.REMOVED})
IN_VAIN = frozenset({TaskState.FAILED, TaskState.REMOVED})
"""The ends after which no task that depends on this one can run."""
