"""Worker-centric scheduling: a free node is given the task that suits the files it has.

A node is the paper's site: its cores are the site's workers, and its depot the data server that
they share, which fetches one file at a time, one task's batch after another. The paper's tasks are
independent and all inputs come from outside; here a task is in the pool once its parents have
ended, and the files they wrote count as files of the nodes that wrote them.
"""

from dataward.node.data_pulling import SuitedPulling
from dataward.node.keeper_homes import KeeperHome
from dataward.node.settings import NodeSettings
from dataward.strategies.strategy import Strategy
from dataward.strategies.workqueue import in_order

WORKER_CENTRIC = Strategy(
    "worker-centric",
    "a free node takes the task that lacks the fewest files there (metric, choose)",
    in_order,
    "Ko, Morales, Gupta: New Worker-Centric Scheduling Strategies, Middleware 2007",
    settings=NodeSettings(backups_max=0, staging_ahead=0, transfers_max=1),
    home=KeeperHome(),
    mover=SuitedPulling(),
)
