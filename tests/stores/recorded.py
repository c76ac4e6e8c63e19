"""What a simulated run asked of each shard, and replaying it against a store on a server."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dataward.cli.seed_trials import workflow_of
from dataward.cli.seed_workflows import Workflows
from dataward.model.answers import Answer
from dataward.model.operations import Operation
from dataward.sim.campaign import (
    drawn_estimates,
    drawn_removals,
    impatient,
    run_trial,
    small_cluster,
)
from dataward.sim.earlier_run import drawn_earlier_run
from dataward.sim.faults import parse_faults
from dataward.stores.shard import Shard
from dataward.strategies.registry import strategy_named


class Applied(NamedTuple):
    now: float
    epoch: int
    operation: Operation
    answer: Answer


class Log(list[Applied]):
    """All that led to a shard's state. A copy of the shard goes on with a copy of the log."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Log":
        return Log(self)


@dataclass
class Recorder:
    """Makes shards that note what they apply; ``logs`` has those of the shards that were last."""

    logs: dict[int, Log] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recorder":
        return self

    def make_shard(self, index: int) -> "RecordingShard":
        return RecordingShard(index, self)


class RecordingShard(Shard):
    def __init__(self, index: int, recorder: Recorder) -> None:
        super().__init__(index)
        self.recorder = recorder
        self.log = Log()

    def apply(self, operation: Operation, now: float) -> Answer:
        answer = super().apply(operation, now)
        self.log.append(Applied(now, self.epoch, operation, answer))
        self.recorder.logs[self.index] = self.log
        return answer


def record_seed(seed: int, strategy: str, faults: str) -> tuple[int, dict[int, Log]]:
    """The number of shards, and their logs, of the trial that `dataward seeds` makes."""
    recorder = Recorder()
    workflow, platform = workflow_of(seed, Workflows.MIXED), small_cluster(seed)
    run_trial(
        workflow,
        platform,
        impatient(strategy_named(strategy), seed),
        parse_faults(faults),
        seed,
        make_shard=recorder.make_shard,
        earlier=drawn_earlier_run(workflow, seed),
        estimates=drawn_estimates(seed),
        removals=drawn_removals(workflow, platform, seed),
    )
    return platform.store.shards, recorder.logs
