"""Ray: a raylet of one processor for each node, all on this machine, no dashboard.

Between raylets objects move as between machines; what has no room is spilled to the disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import data_work
import ray
from data_work import MB, DataPeer, DataWork
from ray.cluster_utils import Cluster

# Where there is no limit, all objects fit into each node.
ROOM_BYTES = 2_000 * MB


@contextmanager
def ray_of(work: DataWork) -> Iterator[DataPeer]:
    each: dict[str, Any] = {
        "num_cpus": 1,
        "object_store_memory": max(work.room_bytes or ROOM_BYTES, 80 * MB),
    }
    (Path(gettempdir()) / "ray").mkdir()  # where it notes which cluster is up
    head = {**each, "include_dashboard": False, "temp_dir": gettempdir()}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(work.nodes - 1):
        cluster.add_node(**each)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    remote = {f: ray.remote(f) for f in data_work.FUNCTIONS}
    yield DataPeer(lambda f, *args: remote[f].remote(*args), ray.get)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    data_work.main(ray_of)
