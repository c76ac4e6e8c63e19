"""One shard of the store: a state machine that applies operations one at a time.

The rules are in ``task_rules``, ``node_rules`` and ``patrol_rules``; all stores share them. They do
not wait, have no clock and do no I/O: the caller says what time it is. Keeping, journalling and
charging time for operations is left to the stores and the simulator.
"""

from collections.abc import Callable
from typing import Any

from dataward.model.answers import Answer
from dataward.model.operations import (
    AddCopies,
    Advance,
    Begin,
    Claim,
    Commit,
    Delivered,
    DropCopies,
    Enqueue,
    Fail,
    Forget,
    Join,
    Leave,
    LetGo,
    Look,
    Notify,
    Operation,
    Patrol,
    Postpone,
    Probe,
    Recount,
    Recounted,
    Release,
    Remove,
    Renew,
    Reopen,
    Replicate,
    ReportLoad,
    Restate,
    Seize,
    Submit,
    TakeOver,
    Tally,
)
from dataward.stores.patrol_rules import PatrolRules


class Shard(PatrolRules):
    """The records of some tasks, nodes and workflow inputs, and the rules that change them."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._rules: dict[type, Callable[[Any, float], Answer]] = {
            Submit: self._submit,
            Begin: self._begin,
            Advance: self._advance,
            Commit: self._commit,
            Fail: self._fail,
            Release: self._release,
            Remove: self._remove,
            Notify: self._notify,
            Delivered: self._delivered,
            Replicate: self._replicate,
            TakeOver: self._take_over,
            Reopen: self._reopen,
            Postpone: self._postpone,
            AddCopies: self._add_copies,
            DropCopies: self._drop_copies,
            Look: self._look,
            Forget: self._forget,
            Join: self._join,
            Renew: self._renew,
            Leave: self._leave,
            Enqueue: self._enqueue,
            Claim: self._claim,
            LetGo: self._let_go,
            Restate: self._restate,
            Seize: self._seize,
            ReportLoad: self._report_load,
            Probe: self._probe,
            Patrol: self._patrol,
            Recount: self._recount,
            Recounted: self._recounted,
            Tally: self._tally,
        }

    def apply(self, operation: Operation, now: float) -> Answer:
        return self._rules[type(operation)](operation, now)

    def loose_ends(self) -> dict[str, int]:
        """How many of each thing the shard keeps that must be 0 when every task has ended."""
        return {**self._loose_ends_of_tasks(), **self._loose_ends_of_nodes()}
