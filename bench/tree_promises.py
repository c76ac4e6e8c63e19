"""What the tree of a small cluster promises, beside a plan with all schedules at hand.

    python -m bench.tree_promises [--tasks 30 60 120 200] [--seeds 1] [--cores 1]

The hosts, their trees and the questions are those of a cluster; only the network between them and
the clock are not: letters arrive at once, and no time passes but by waiting for the clock. For each
workflow the tree is asked for the deadline that `earliest_promise` finds with all schedules at
hand, and then for later ones; told is how much later the first is that the tree accepts. With
``--cores`` every fourth task, drawn, takes so many cores, and the plan is that of `core_plan`.
"""

import argparse
import asyncio
import selectors
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import numpy as np

from dataward import generate
from dataward.cluster.promise_asking import (
    LAG_SECONDS,
    PromiseAsking,
    whole_workflow,
)
from dataward.cluster.promise_wanted import OVERHEAD_SECONDS
from dataward.cluster.promise_ways import told_finish
from dataward.cluster.tree_addresses import address_of
from dataward.cluster.tree_here import TreeHere
from dataward.deadlines.core_plan import core_plan, open_work
from dataward.deadlines.frames import Outline, outline_of
from dataward.deadlines.promising import NodeSchedule, earliest_promise
from dataward.live.peer_client import PeerClient
from dataward.live.promised_slots import PromisedSlots
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.workflow import Workflow

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
BEGIN = 1e6  # what the clock shows at first
HOSTS = ([1], [2], [1, 1], [3], [1, 1, 1], [2, 2], [1, 1, 1, 1])  # the slots of each host
WIDE_HOSTS = ([2, 2], [4, 4], [2, 2, 2, 2])
RATIOS = (1.001, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer whenever nothing else is to be done."""

    def __init__(self) -> None:
        self._now = BEGIN
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, work: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Work for a thread is done at once: no time of this clock passes meanwhile."""
        done = self.create_future()
        done.set_result(work(*args))
        return done


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and nothing will happen"
        self._loop.jump(max(timeout, 0.0))
        return super().select(0)


class OneProcess(PeerClient):
    """Hosts of one process: what one leaves with another is taken at once."""

    def __init__(self) -> None:
        super().__init__(lambda node: None, None)
        self.trees: dict[NodeId, TreeHere] = {}
        self.sent = 0

    async def leave(self, to: NodeId, path: str, content: bytes) -> bool:
        self.sent += 1
        if to not in self.trees:
            return False
        self.trees[to].take(content)
        return True

    def lose(self, node: NodeId) -> None:
        """Have nobody hear of this host any more, nor this host of them."""
        self.trees.pop(node).follow([])


def in_a_tree(
    hosts: Sequence[int], work: Callable[[OneProcess, Callable[[], float]], Awaitable[None]]
) -> None:
    """Have hosts with so many slots each, and work with them under a virtual clock."""

    async def live() -> None:
        clock, client = asyncio.get_running_loop().time, OneProcess()
        members = [Member(NodeId(f"n{i}"), "", slots, 0, 1) for i, slots in enumerate(hosts)]
        for member in members:
            place = address_of(member.node, 0)
            slots = PromisedSlots(member.cores, clock, place=place, bytes_per_second=1e6)
            tree = TreeHere(member.node, slots, list, client, lambda: None)
            client.trees[member.node] = tree
        for tree in client.trees.values():
            tree.follow(members)
        living = [asyncio.create_task(tree.live()) for tree in client.trees.values()]
        try:
            await work(client, clock)
        finally:
            for task in living:
                task.cancel()
            for tree in client.trees.values():
                await tree.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(live())


def reserved_outline(workflow: Workflow) -> Outline:
    """The workflow as a submitter asks for it, with run times that are known."""
    seconds = workflow.runtime_seconds + OVERHEAD_SECONDS
    return outline_of(replace(workflow, runtime_seconds=seconds))


def widened(workflow: Workflow, cores: int, seed: int) -> Workflow:
    """The workflow, in which every fourth task takes so many cores, drawn."""
    random = Random(seed)
    drawn = [cores if random.random() < 0.25 else 1 for _ in range(len(workflow))]
    return replace(workflow, cores=np.array(drawn, dtype=np.int32))


def planned_seconds(workflow: Workflow, hosts: Sequence[int]) -> float:
    """How long the plan takes that a single machine would make, with all schedules at hand."""
    cores = [NodeSchedule(NodeId(f"n{n}")) for n, slots in enumerate(hosts) for _ in range(slots)]
    work = open_work(workflow, [True] * len(workflow), LAG_SECONDS)
    seconds = workflow.runtime_seconds + OVERHEAD_SECONDS
    return core_plan(work, cores, seconds.tolist(), 0.0).finish


def central_seconds(outline: Outline, slots: int) -> float:
    """Within how many seconds the workflow can be promised with all schedules at hand."""
    nodes = [NodeSchedule(NodeId(f"s{slot}"), free_from=BEGIN) for slot in range(slots)]
    return earliest_promise(outline, nodes, BEGIN, LAG_SECONDS) - BEGIN


def first_accepted(outline: Outline, hosts: Sequence[int], central: float) -> float:
    """The least of `RATIOS` of the central plan's time that the tree accepts; inf if none."""
    found = [inf]

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        for ratio in RATIOS:
            question = whole_workflow(outline, clock(), clock() + ratio * central)
            if await asking.ask(question, {}) is not None:
                found[0] = ratio
                return

    in_a_tree(hosts, work)
    return found[0]


async def refused(
    asking: PromiseAsking, clock: Callable[[], float], outline: Outline, seconds: float
) -> float:
    """The earliest finish that is told to whom a deadline is refused; inf if there is none."""
    question = whole_workflow(outline, clock(), clock() + seconds)
    assert await asking.ask(question, {}) is None
    within, tried = await asking.earliest(question, {})
    if tried is None:
        return inf
    asking.withdraw(tried)
    return told_finish(clock(), within)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=[30, 60, 120, 200])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1)
    given = parser.parse_args()
    for name in APPLICATIONS:
        for hosts in HOSTS if given.cores == 1 else WIDE_HOSTS:
            ratios = []
            for tasks in given.tasks:
                for seed in range(given.seeds):
                    workflow = widened(generate(name, tasks, seed=seed), given.cores, seed)
                    outline = reserved_outline(workflow)
                    if given.cores == 1:
                        central = central_seconds(outline, sum(hosts))
                    else:
                        central = planned_seconds(workflow, hosts)
                    ratios.append(first_accepted(outline, hosts, central))
            slots = "+".join(map(str, hosts))
            print(f"{name}, slots {slots}: {' '.join(f'{r:.3f}' for r in ratios)}", flush=True)


if __name__ == "__main__":
    main()
