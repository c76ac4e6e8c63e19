"""Requests to remove tasks from a run under way, which another process makes by way of files.

Whoever wants tasks removed puts a request into the run's record and waits. The process that runs
the workflow looks for requests a few times a second, and puts its answer beside each. Files are
enough for that: a run listens on no port, and whoever may write into the run directory may as well
remove the outputs.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from dataward.errors import DatawardError, OutputError
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.runs.run_directory import RunRecord

POLL_SECONDS = 0.05
_REQUEST, _ANSWER = ".request", ".answer"


class NotUnderWayError(DatawardError):
    """The run does not listen to requests."""

    def __init__(self, run: Path, why: str) -> None:
        self.run = run
        super().__init__(f"{run} {why}; nothing was removed")


class RemovalAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What became of a task. If it is removed, so are ``others`` that depend on it."""

    task: TaskId
    state: TaskState
    others: int = 0


class RemovalRequests:
    """The requests about one run, for the process that runs it."""

    def __init__(self, record: RunRecord) -> None:
        self._place = record.removals

    def unanswered(self) -> Iterator[tuple[Path, list[TaskId]]]:
        """Each request that has no answer yet, with the tasks it names."""
        try:
            names = sorted(os.listdir(self._place))
        except OSError:
            return  # nobody has made a request
        for name in names:
            request = self._place / name
            if request.suffix == _REQUEST and not request.with_suffix(_ANSWER).exists():
                with suppress(OSError, msgspec.MsgspecError):  # it was withdrawn, or is no request
                    yield request, msgspec.json.decode(request.read_bytes(), type=list[TaskId])

    def answer(self, request: Path, answers: Sequence[RemovalAnswer]) -> None:
        with suppress(OSError):  # whoever asked then waits until the run has ended
            _put(request.with_suffix(_ANSWER), msgspec.json.encode(answers))


def request_removal(record: RunRecord, tasks: Sequence[TaskId]) -> list[RemovalAnswer]:
    """What became of these tasks of a run, which another process runs.

    Raises NotUnderWayError if no process does, or if it ends before it has answered.
    """
    if not record.is_under_way():
        raise NotUnderWayError(record.path, "is not under way")
    with _requested(record.removals, tasks) as answer:
        while not answer.exists():
            if not record.is_under_way() and not answer.exists():
                raise NotUnderWayError(record.path, "has ended")
            time.sleep(POLL_SECONDS)
        return msgspec.json.decode(answer.read_bytes(), type=list[RemovalAnswer])


@contextmanager
def _requested(place: Path, tasks: Sequence[TaskId]) -> Iterator[Path]:
    """The file in which the answer to a request is to come; both are removed in the end."""
    request = place / f"{os.getpid()}-{time.monotonic_ns()}{_REQUEST}"
    answer = request.with_suffix(_ANSWER)
    try:
        place.mkdir(exist_ok=True)
        _put(request, msgspec.json.encode(list(tasks)))
    except OSError as error:
        raise OutputError(str(request), error.strerror or str(error)) from error
    try:
        yield answer
    finally:
        for path in (request, answer):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # others have requests there
            place.rmdir()


def _put(path: Path, content: bytes) -> None:
    """Make a file whose whole content is there as soon as its name is."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content)
    os.replace(draft, path)
