"""The life of a task: ADAGE's Table 3, and the transitions its Figure 2 allows."""

from enum import Enum


class TaskState(Enum):
    WAITING = "waiting"  # some parent has not committed
    READY = "ready"  # may run; waits for a node to begin it
    STAGE_IN = "stage-in"  # its inputs are being brought in
    RUNNING = "running"
    STAGE_OUT = "stage-out"  # its outputs are being written
    COMPLETE = "complete"
    FAILED = "failed"

    # Enum's own is written in Python, and states are looked up some thirty times a task.
    __hash__ = object.__hash__


# Figure 2 draws the straight life of a task that nothing happens to. Three things happen to tasks
# that the figure omits; each adds the transitions in the table named after it.
_FIGURE_2 = {
    TaskState.WAITING: {TaskState.READY},
    TaskState.READY: {TaskState.STAGE_IN},
    TaskState.STAGE_IN: {TaskState.RUNNING},
    TaskState.RUNNING: {TaskState.STAGE_OUT, TaskState.FAILED},
    TaskState.STAGE_OUT: {TaskState.COMPLETE},
    TaskState.COMPLETE: set(),
    TaskState.FAILED: set(),
}
_CASCADE = {
    # A parent failed; or the task itself did, and the store heard of it before it heard of more.
    TaskState.WAITING: {TaskState.FAILED},
    TaskState.READY: {TaskState.FAILED},
    TaskState.STAGE_IN: {TaskState.FAILED},
    TaskState.STAGE_OUT: {TaskState.FAILED},
}
_ATTEMPT_LOST = {
    # The node died or gave up, or the task failed and is tried again: back to ready, or to how far
    # the next best replica has come.
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

ALLOWED: dict[TaskState, frozenset[TaskState]] = {
    state: frozenset().union(
        *(table.get(state, set()) for table in (_FIGURE_2, _CASCADE, _ATTEMPT_LOST, _DATA_LOST))
    )
    for state in TaskState
}

PROGRESS = {
    TaskState.READY: 0,
    TaskState.STAGE_IN: 1,
    TaskState.RUNNING: 2,
    TaskState.STAGE_OUT: 3,
}
"""How far an attempt has come; a task is where its furthest attempt is."""


class AttemptOutcome(Enum):
    """How one run of a task ended. A node says the first six; readers of the events the rest."""

    WON = "won"  # it was committed
    LOST = "lost"  # another attempt was, or its node's lease had expired
    CANCELLED = "cancelled"
    FAILED = "failed"  # by the task's own error
    RELEASED = "released"  # the node could not go on with it
    POSTPONED = "postponed"  # until an input is made again
    CRASHED = "crashed"  # its node was lost under it
    FORGOTTEN = "forgotten"  # its node came back as another incarnation
    CUT_OFF = "cut off"  # it still went on when the run ended
    UNDER_WAY = "under way"  # it still goes on as far as the events tell

    __hash__ = object.__hash__


class FailureCause(Enum):
    """Who ended a run of a task that failed."""

    TASK = "task"  # the task itself: its exit code, its exception, a missing output
    TIME_LIMIT = "time limit"
    PROCESS_DIED = "process died"  # the runner process under it


FINAL = frozenset({TaskState.COMPLETE, TaskState.FAILED})
