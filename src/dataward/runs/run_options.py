"""How a workflow is to be run."""

from dataclasses import dataclass

from dataward.deadlines.admission import AcceptedDeadline
from dataward.live.promise_book import PromiseBook
from dataward.live.runner_settings import RunnerSettings
from dataward.live.slice import Slice
from dataward.model.deadline import WantedDeadline
from dataward.runs.keeping import Keep
from dataward.runs.preparation import WHOLE, Request
from dataward.strategies.strategy import Strategy


@dataclass(frozen=True, slots=True)
class RunOptions:
    machine: Slice
    strategy: Strategy
    runner: RunnerSettings = RunnerSettings()  # noqa: RUF009 - frozen
    retries: int = 0
    keep: Keep = Keep()  # noqa: RUF009 - frozen
    request: Request = WHOLE
    start: int = 1  # 1 for a new run, 2 if it is resumed for the first time
    began_seconds: float = 0.0  # how long the run had gone on before it was interrupted
    deadline: WantedDeadline | None = None
    promise: AcceptedDeadline | None = (
        None  # if the deadline was accepted: seconds after it was asked
    )
    book: PromiseBook | None = None  # of all promised runs on this machine
