"""What nodes say to each other directly. All of it may be lost: the store knows everything."""

import msgspec

from dataward.model.ids import AttemptId
from dataward.model.workflow import TaskId


class WorkQueued(msgspec.Struct, frozen=True, tag="work-queued"):
    """Something was put in your queue: look."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """This task has been completed so often: drop or cancel what would complete it as often."""

    task: TaskId
    generation: int


class Confirm(msgspec.Struct, frozen=True, tag="confirm"):
    """Is this attempt of yours still under way? If not, give the task up."""

    task: TaskId
    attempt: AttemptId


Message = WorkQueued | Stop | Confirm
