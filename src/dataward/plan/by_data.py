"""Plans by the data that tasks read, before any node is known to have it."""

from zlib import crc32

import numpy as np

from dataward.model.adjacency import Indices
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan


def by_data_size_plan(workflow: Workflow, nodes: int) -> Plan:
    """Tasks that read most first, as MATRIX's ready queues have them; nodes by a hash of the id.

    That is MATRIX's best case: "hashing the task ids among all the schedulers".
    """
    priority = 0.0 - workflow.input_bytes().astype(float)
    return Plan(priority, hashed_nodes(workflow, nodes), None)


def hashed_nodes(workflow: Workflow, nodes: int) -> Indices:
    """A node for each task, by a hash of the task's id, which is the same in every process."""
    hashed = [crc32(task.encode()) % nodes for task in workflow.task_ids]
    return np.array(hashed, dtype=np.int32)
