"""Our own strategy: HEFT's plan with links, followed closely, and left only where it has failed.

Where nodes differ, a second plan looks ahead to what is left after each task, and where links are
slow, all tasks may be better off on one node; the shortest plan is used. Cores, links and the
attention of other nodes go to what is most urgent. Large files come one at a time, and spread
through the nodes that have them. Where run times are as estimated, tasks run where they were
planned; a node that falls behind offers what waits, and what runs late, to others.
"""

from collections.abc import Sequence

from dataward.model.platform import Machine, Platform
from dataward.model.workflow import Seconds, Workflow
from dataward.node.homes import AdageHome
from dataward.node.offering import Offering
from dataward.node.ready_queue import TakeOrder
from dataward.node.settings import NodeSettings, Precedence
from dataward.plan.adage import Plan, lone_node_plan
from dataward.plan.ahead import ahead_of_readers, relays_of
from dataward.plan.costs import Costs, costs_of
from dataward.plan.exchanges import with_fewer_moves
from dataward.plan.heft import upward_ranks
from dataward.plan.kinds import kinds_of
from dataward.plan.latest_starts import latest_starts
from dataward.plan.onward import onward_seconds
from dataward.plan.quick_links import placed_quickly
from dataward.plan.schedule import Schedule
from dataward.strategies.strategy import Strategy

ALONE_MAX = 4  # nodes that are tried for all tasks


def links_by_slack(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    """The nodes of `quick_links`, where tasks are taken by how late they may start.

    In the order of planned starts, a task that was planned into a gap would wait for its gap. By
    upward rank, a short task that others wait for would wait behind all longer ones: Inspiral on 16
    nodes took 1.10 of the bound, and takes 1.06 by the latest start.
    """
    if len(platform.machines) == 1:
        machine = platform.machines[0]
        seconds = workflow.runtime_seconds / machine.speed + disk_seconds(workflow, machine)
        return lone_node_plan(workflow, machine.cores, seconds)
    costs = costs_of(workflow, platform, located)
    schedule = with_fewer_moves(costs, platform, shortest_schedule(costs, platform))
    return Plan(
        latest_starts(costs, schedule),
        schedule.nodes,
        schedule.makespan_seconds,
        ahead_of_readers(workflow, schedule),
        relays=relays_of(costs, schedule),
    )


def shortest_schedule(costs: Costs, platform: Platform) -> Schedule:
    """The shortest of a few schedules: each task where it ends first, or by looking ahead as well.

    Where it ends first may be a fast node from which its large output takes hours to the nodes that
    run the next tasks. But looking ahead is optimistic, and often a little worse. Where all nodes
    are alike, what is left after a task is the same everywhere. Both place one task after another,
    and may spread over slow links what had better stayed together: so one node alone is tried too.
    """
    ranks, onward = upward_ranks(costs), onward_seconds(costs, platform, kinds_of(platform))
    found = [placed_quickly(costs, platform, ranks)]
    if not (onward == onward[:, :1]).all():
        found.append(placed_quickly(costs, platform, ranks, onward=onward))
    limit = min(schedule.makespan_seconds for schedule in found)
    for node in nodes_for_all(costs.workflow, platform, limit):
        found.append(placed_quickly(costs, platform, ranks, only=node))
    return min(found, key=lambda schedule: schedule.makespan_seconds)


def nodes_for_all(workflow: Workflow, platform: Platform, limit_seconds: float) -> list[int]:
    """Nodes whose cores and disk could do all tasks in so long: the best few, one of each kind."""
    kinds, machines = kinds_of(platform), platform.machines
    work = float((workflow.runtime_seconds * workflow.cores).sum())
    width = int(workflow.cores.max())
    found = []
    for node in map(kinds.index, range(max(kinds) + 1)):
        machine = machines[node]
        seconds = work / (machine.cores * machine.speed)
        disk = float(disk_seconds(workflow, machine).sum())
        if machine.cores >= width and max(seconds, disk) < limit_seconds:
            found.append((seconds, node))
    return [node for _, node in sorted(found)[:ALONE_MAX]]


def disk_seconds(workflow: Workflow, machine: Machine) -> Seconds:
    """How long each task's files take to be read and written on a machine's disk."""
    moved = workflow.input_bytes() + workflow.output_bytes()
    seconds: Seconds = moved / machine.disk_bytes_per_second
    return seconds


DATAWARD = Strategy(
    "dataward",
    "a plan that knows links; cores and files go to what is most urgent, work to who is sooner",
    links_by_slack,
    settings=NodeSettings(
        lease_seconds=30.0,
        validation_seconds=10.0,
        backups_max=1,
        precedence=Precedence.URGENCY,
        staging_ahead=4,
        idle_staging=32,
        give_way_share=0.05,
        window_bytes=1e8,
        uploads_max=1,
        quickest_source=True,
        safe_bytes_per_second=1e6,
        shuns_dead=True,
    ),
    home=AdageHome(),
    order=TakeOrder.REPLICAS_TOO,
    mover=Offering(),
)
