"""Which files should be on their way before their readers are ready, and which by other nodes."""

from dataward.model.workflow import Workflow
from dataward.plan.costs import Costs
from dataward.plan.schedule import Schedule

# Of the makespan, so much must be gained by one file. A file that comes ahead may delay what tasks
# that are ready wait for: for less, that was seen to cost more than it brought. On Epigenomics, a
# file of 42 s in a day's run upset the order in which tasks were ready, and cost 8%.
GAIN_SHARE = 0.01


def ahead_of_readers(workflow: Workflow, schedule: Schedule) -> tuple[tuple[int, int], ...]:
    """Files as (file, node) whose planned transfer begins long before a reader there is ready.

    A node fetches a file when the parents of its reader have ended. What is gained by fetching it
    before is the part of the planned transfer until then. In the order of planned starts.
    """
    least = GAIN_SHARE * schedule.makespan_seconds
    ends, nodes = schedule.ends, schedule.nodes
    found: list[tuple[float, int, int]] = []
    for file, _, node, start, end in schedule.transfers:
        if end - start < least:
            continue
        readers = [task for task in workflow.consumers.row(file).tolist() if nodes[task] == node]
        ready = min(
            [float(ends[workflow.parents.row(task)].max(initial=0.0)) for task in readers],
            default=0.0,
        )
        if min(end, ready) - start >= least:
            found.append((start, file, node))
    return tuple((file, node) for _, file, node in sorted(found))


def relays_of(costs: Costs, schedule: Schedule) -> dict[tuple[int, int], int]:
    """By (file, node), the node that sends an input of the workflow on, where not the origin does.

    Where the origin is slow, two nodes that fetch a file from it at once both have the file when
    one of them could have had it in half the time, and sent it on. Only files for which the origin
    would take long: to wait for another node may be in vain.
    """
    workflow, from_origin = costs.workflow, costs.rates.from_origin
    made, size_bytes = workflow.producers.degrees(), workflow.size_bytes
    least = GAIN_SHARE * schedule.makespan_seconds
    return {
        (file, node): source
        for file, source, node, _, _ in schedule.transfers
        if source < len(costs.cores)
        and not made[file]
        and size_bytes[file] >= least * from_origin[node]
    }
