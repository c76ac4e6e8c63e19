"""Starts a run's processes before anything else is done: they take a moment to start."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from dataward.live.leftovers import end_leftovers
from dataward.live.runner_pool import RunnerPool, close_pools, runner_pools
from dataward.live.slice import Slice
from dataward.live.trees import remove_tree
from dataward.model.ids import NodeId
from dataward.runs.run_directory import RunDirectory


def launched(
    directory: RunDirectory, machine: Slice, tasks: int, stack: ExitStack
) -> dict[NodeId, RunnerPool]:
    """The nodes' pools, with processes already starting if every task will have to run.

    The caller holds the directory's lock. The processes end with the stack.
    """
    work = directory.work.absolute()
    end_leftovers(work)
    pools = runner_pools(machine, work)
    stack.callback(_discard, pools, work)
    if not directory.holds_outcomes():
        for pool in pools.values():
            pool.launch(tasks)
    return pools


def _discard(pools: Mapping[NodeId, RunnerPool], work: Path) -> None:
    close_pools(pools.values())
    with suppress(OSError):
        remove_tree(work)
