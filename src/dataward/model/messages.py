"""Messages between nodes. Any of them may be lost: the store has every fact they carry."""

import msgspec

from dataward.model.ids import AttemptId
from dataward.model.workflow import TaskId


class WorkQueued(msgspec.Struct, frozen=True, tag="work-queued"):
    """A task was put in your queue: claim it."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """``generation`` is complete: drop queue entries and attempts for it or for an earlier one."""

    task: TaskId
    generation: int


class Confirm(msgspec.Struct, frozen=True, tag="confirm"):
    """Is this attempt of yours still under way? If not, release it."""

    task: TaskId
    attempt: AttemptId


Message = WorkQueued | Stop | Confirm
