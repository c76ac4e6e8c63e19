"""Storage affinity: tasks are assigned to where their data is before the run; idle nodes replicate.

As the worker-centric paper has it for comparison: the scheduler "first distributes its tasks
according to the overlap cardinality", each node runs its tasks one by one, and whoever is idle runs
a replica of a task that was assigned to another. A node is the paper's site, as for
`worker_centric`.

Neither paper limits the replicas of a task. Here there are two at most unless ``backups_max`` is
set: else all idle nodes of a large cluster fetch the same inputs. 1,000 tasks of CyberShake on 256
nodes took 29 minutes with two replicas and 148 without a limit.
"""

from collections.abc import Sequence

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.keeper_homes import KeeperHome
from dataward.node.replicating import Replicating
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan
from dataward.plan.storage_affinity import storage_affinity_plan
from dataward.strategies.strategy import Strategy


def largest_affinity(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    cores = [machine.cores for machine in platform.machines]
    return storage_affinity_plan(workflow, cores, located)


STORAGE_AFFINITY = Strategy(
    "storage-affinity",
    "tasks assigned to where most of their bytes are; idle nodes run replicas of others' tasks",
    largest_affinity,
    "Santos-Neto, Cirne, Brasileiro, Lima: Exploiting Replication and Data Reuse, JSSPP 2004",
    settings=NodeSettings(staging_ahead=0, transfers_max=1),
    home=KeeperHome(),
    mover=Replicating(),
)
