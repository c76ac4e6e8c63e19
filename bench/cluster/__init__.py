"""A cluster of real processes on this machine: what it costs, what moves on it, and its peers.

    python -m bench cluster [--quick]
    python -m bench.cluster --only joins --only hot

- `calls`: no-op functions, commands and a file DAG on two nodes, beside Ray and Dask
- `data`: locality, joins, a hot object and little room: time, bytes moved and processor time, the
  same way
- `rates`: commands and functions from 10^4 to 10^5, with one store server and three, on two nodes
  and four: store calls, server time and messages a task
- `recovery`: 200 tasks of 0.1 s on two slots, a node killed after 2 s: what is lost
- `idle`: an idle node's processor time, and what it asks of the store in a minute
"""

from bench.cluster.bench import run

__all__ = ["run"]
