"""Sparrow: many schedulers, each of which samples nodes and lets the free ones come for the tasks.

The node on which tasks become ready together is their scheduler; together they are Sparrow's job.
It reserves places at twice as many random nodes as there are tasks; a node that is free asks the
scheduler of its oldest reservation, and is given a task or hears that none is left. The MATRIX
paper calls that early binding; Sparrow's own paper, which is followed here, binds late. Its fair
shares and constraints of placement are left out.
"""

from dataward.node.probing import Probing
from dataward.node.scheduler_homes import SchedulerHome
from dataward.node.settings import NodeSettings
from dataward.strategies.strategy import Strategy
from dataward.strategies.workqueue import in_order

SPARROW = Strategy(
    "sparrow",
    "a task's scheduler reserves places at random nodes; the first that is free takes the task",
    in_order,
    "Ousterhout, Wendell, Zaharia, Stoica: Sparrow, SOSP 2013",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    home=SchedulerHome(),
    mover=Probing(),
)
