"""dataward beside its peers on two slots: functions, chains, a tree, commands and a file DAG.

`python -m bench peers` sets up what is missing in .venv-peers, runs every contestant in a process
of its own, three rounds in turn, and prints tasks a second and how dataward compares.
`python -m bench.peers --only Ray --workload files` is a part of it.
"""

from bench.peers.bench import run

__all__ = ["run"]
