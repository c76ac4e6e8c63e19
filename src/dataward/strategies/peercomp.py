"""PeerComp: every task is promised by a core before the run, and cores keep their promises.

A core takes its tasks by their deadlines, stops none, and starts no task that would make another
one late. Where every schedule is at hand, as here, sequences need not be asked for one by one
(`deadlines/core_plan.py`); `dataward deadlines` simulates the search through a tree.
"""

from collections.abc import Sequence

import numpy as np

from dataward.deadlines.admission import AcceptedDeadline, WantedPromise, best_promise
from dataward.deadlines.promising import NodeSchedule
from dataward.model.platform import Platform
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Workflow
from dataward.node.ready_queue import TakeOrder
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, PlannedPromise, check_width
from dataward.plan.estimates import Estimated
from dataward.strategies.strategy import Strategy


def cores_of(platform: Platform) -> list[NodeSchedule]:
    """Every core of a platform, node by node, with nothing promised."""
    return [
        NodeSchedule(
            machine.id, speed=machine.speed, bytes_per_second=machine.down_bytes_per_second
        )
        for machine in platform.machines
        for _ in range(machine.cores)
    ]


def wanted_on(
    platform: Platform, known: Estimated, located: dict[int, Sequence[int]]
) -> WantedPromise:
    """A whole workflow, as it is to be promised on a platform's nodes."""
    nodes = [machine.id for machine in platform.machines]
    return WantedPromise(
        known,
        before_the_run(known.workflow),
        # Outcome to the store, notice to the child's shard, and the child's claim.
        lag_seconds=6 * (platform.latency_seconds + platform.store.latency_seconds),
        located={file: [nodes[at] for at in places] for file, places in located.items()},
    )


def promised_plan(workflow: Workflow, platform: Platform, accepted: AcceptedDeadline) -> Plan:
    """The plan in which each task runs where it was promised; its priority is its deadline."""
    places = [
        (node, core)
        for node, machine in enumerate(platform.machines)
        for core in range(machine.cores)
    ]
    priority = np.full(len(workflow), accepted.finish)
    preferred = np.zeros(len(workflow), dtype=np.int32)
    promises = []
    for number, queue in accepted.queues.items():
        node, core = places[number]
        for slot in queue:
            priority[slot.task], preferred[slot.task] = slot.deadline, node
            promises.append(PlannedPromise(slot.task, node, core, slot.deadline, slot.seconds))
    return Plan(priority, preferred, accepted.finish, promises=tuple(promises))


def earliest_promises(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    """Promises for the earliest finish, by the estimates alone."""
    check_width([machine.cores for machine in platform.machines], workflow)
    known = Estimated(workflow, np.zeros(len(workflow)))
    best = best_promise(wanted_on(platform, known, located), cores_of(platform), 0.0)
    return promised_plan(workflow, platform, best.by(best.finish))


PEERCOMP = Strategy(
    "peercomp",
    "every task promised by a core, which starts none that would make another late",
    earliest_promises,
    "Celaya, Arronategui: Workflows with Deadlines in a P2P Desktop Grid",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    order=TakeOrder.PROMISED,
)
