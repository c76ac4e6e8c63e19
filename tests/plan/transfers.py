"""What every schedule with planned transfers must keep."""

from collections.abc import Sequence
from itertools import pairwise

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.schedule import PlannedTransfer, Schedule

CLOSE = 1e-9


def lanes_of(platform: Platform) -> int:
    fastest = max(machine.down_bytes_per_second for machine in platform.machines)
    return max(1, int(platform.origin_bytes_per_second / fastest))


def check_transfers(
    workflow: Workflow, platform: Platform, located: dict[int, list[int]], schedule: Schedule
) -> None:
    """Every file comes in time, from where it is, over links that carry nothing else."""
    machines, count = platform.machines, len(platform.machines)
    there = {(file, node): 0.0 for file, nodes in located.items() for node in nodes}
    for task, node in enumerate(schedule.nodes.tolist()):
        for file in workflow.outputs.row(task).tolist():
            there[file, node] = float(schedule.ends[task])
    arrived = {(t.file, t.node): t.end for t in schedule.transfers}
    assert len(arrived) == len(schedule.transfers), "nothing is moved twice"
    assert not arrived.keys() & there.keys(), "nothing is moved to where it is"
    there |= arrived
    for t in schedule.transfers:
        up = platform.origin_bytes_per_second
        if t.source < count:
            up = machines[t.source].up_bytes_per_second
            assert there[t.file, t.source] <= t.start
        else:
            assert t.source < count + lanes_of(platform)
            assert not len(workflow.producers.row(t.file)), "the origin has inputs only"
        seconds = workflow.size_bytes[t.file] / min(up, machines[t.node].down_bytes_per_second)
        assert t.end - t.start >= seconds * (1 - CLOSE) - CLOSE
    for task, node in enumerate(schedule.nodes.tolist()):
        for file in workflow.inputs.row(task).tolist():
            if workflow.size_bytes[file]:
                assert there[file, node] <= schedule.starts[task]
    check_links(schedule.transfers, "source")
    check_links(schedule.transfers, "node")


def check_links(transfers: Sequence[PlannedTransfer], side: str) -> None:
    """No link carries two files at a time."""
    links: dict[int, list[tuple[float, float]]] = {}
    for transfer in transfers:
        link = transfer.source if side == "source" else transfer.node
        links.setdefault(link, []).append((transfer.start, transfer.end))
    for carried in links.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(carried)))
