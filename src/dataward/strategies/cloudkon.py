"""CloudKon: a free node takes a task from a queue that many machines keep together.

The authors use Amazon's SQS, which spreads a queue over its servers and looks at some of them when
a task is asked for. Here every node keeps the part of the queue that falls to it by the tasks'
names. A free node tells itself, then others drawn at random, that it has nothing to run; whoever
has a task, or has one later, invites it to take the task. As there, data plays no part.
"""

from dataward.node.inviting import Inviting
from dataward.node.keeper_homes import HashedHome
from dataward.node.settings import NodeSettings
from dataward.strategies.strategy import Strategy
from dataward.strategies.workqueue import in_order

CLOUDKON = Strategy(
    "cloudkon",
    "a queue spread over all nodes; a free node takes the first task of some node's part",
    in_order,
    "Sadooghi et al.: Achieving Efficient Distributed Scheduling with Message Queues, CCGrid 2014",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    home=HashedHome(),
    mover=Inviting(),
)
