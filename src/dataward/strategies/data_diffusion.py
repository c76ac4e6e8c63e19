"""Data diffusion (Falkon): a central index of caches, and tasks go to where their data is cached.

Nodes that run tasks keep the inputs; a free node is given, of the tasks at the front of the queue,
the one of which it has the most bytes, or else the first. Whoever lacks a file fetches it from any
node that has it. Falkon also takes nodes on and gives them back as the load changes; here the nodes
are those that there are.
"""

from dataward.node.data_pulling import CachedPulling
from dataward.node.keeper_homes import KeeperHome
from dataward.node.settings import NodeSettings
from dataward.strategies.strategy import Strategy
from dataward.strategies.workqueue import in_order

DATA_DIFFUSION = Strategy(
    "data-diffusion",
    "one queue for all; a free node takes the task with the most bytes cached there",
    in_order,
    "Raicu, Zhao, Foster, Szalay: Data Diffusion, DADC 2008",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    home=KeeperHome(),
    mover=CachedPulling(),
)
