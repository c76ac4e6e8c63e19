"""PeerComp: every task is promised by a core before the run, and cores keep their promises.

A core takes its tasks by their deadlines, stops none, and starts no task that would make another
one late. Where every schedule is at hand, as here, sequences need not be asked for one by one
(`deadlines/core_plan.py`); `dataward deadlines` simulates the search through a tree.
"""

from collections.abc import Sequence

import numpy as np

from dataward.deadlines.admission import AcceptedDeadline, WantedPromise, best_promise
from dataward.deadlines.core_plan import FilePlaces
from dataward.deadlines.promising import NodeSchedule
from dataward.model.platform import Machine, Platform
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Seconds, Workflow
from dataward.node.ready_queue import TakeOrder
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, PlannedPromise, check_width
from dataward.plan.estimates import Estimated
from dataward.strategies.strategy import Strategy

CALLS_IN_TASK = 4  # the store is asked to begin a task, and answers
CALLS_BETWEEN_TASKS = 6  # outcome to the store, notice to the child's shard, and the child's claim
SETTINGS = NodeSettings(backups_max=0, staging_ahead=0)


def cores_of(platform: Platform) -> list[NodeSchedule]:
    """Every core of a platform, node by node, with nothing promised."""
    return [
        NodeSchedule(machine.id, speed=machine.speed, bytes_per_second=_link_share(machine))
        for machine in platform.machines
        for _ in range(machine.cores)
    ]


def _link_share(machine: Machine) -> float:
    """What a core has of its node's link, if all cores bring files in at the same time."""
    return machine.down_bytes_per_second / machine.cores


def wanted_on(
    platform: Platform, known: Estimated, located: dict[int, Sequence[int]]
) -> WantedPromise:
    """A whole workflow, as it is to be promised on a platform's nodes.

    Links, disks and the edge server are taken to be as busy as they can be: a promise must hold
    then, too.
    """
    workflow, nodes = known.workflow, [machine.id for machine in platform.machines]
    latency = platform.latency_seconds + platform.store.latency_seconds
    places = {file: [nodes[at] for at in holders] for file, holders in located.items()}
    return WantedPromise(
        known,
        before_the_run(workflow),
        overhead_seconds=CALLS_IN_TASK * latency,
        lag_seconds=CALLS_BETWEEN_TASKS * latency + SETTINGS.company_seconds,
        files=FilePlaces(places, _weighed_bytes(workflow, platform, located)),
        disk_seconds=_disk_seconds(workflow, platform),
    )


def _weighed_bytes(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]]
) -> Seconds:
    """What each file counts as: more, if the link or the server that it comes from is the slower.

    A node sends a file to all nodes whose tasks read it, at the same time.
    """
    machines = platform.machines
    link = max(_link_share(machine) for machine in machines)
    readers = np.clip(workflow.consumers.degrees(), 1, max(len(machines) - 1, 1))
    source = min(machine.up_bytes_per_second for machine in machines) / readers
    outside = workflow.producers.degrees() == 0
    outside[list(located)] = False
    source[outside] = platform.origin_bytes_per_second / platform.cores
    return workflow.size_bytes.astype(np.float64) * np.maximum(link / source, 1.0)


def _disk_seconds(workflow: Workflow, platform: Platform) -> Seconds:
    """How long each task reads and writes, if all cores of its node use the disk."""
    share = min(m.disk_bytes_per_second / (m.cores * m.speed) for m in platform.machines)
    seconds: Seconds = (workflow.input_bytes() + workflow.output_bytes()) / share
    return seconds


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
    settings=SETTINGS,
    order=TakeOrder.PROMISED,
)
