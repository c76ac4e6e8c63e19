"""Ray with two processors, object references as arguments, no dashboard."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir

import ray
import workloads
from workloads import Peer


@contextmanager
def ray_of_two() -> Iterator[Peer]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=gettempdir())
    remote = {function: ray.remote(function) for function in workloads.FUNCTIONS}
    yield Peer(lambda function, *args: remote[function].remote(*args), ray.get)
    ray.shutdown()


if __name__ == "__main__":
    workloads.main(ray_of_two)
