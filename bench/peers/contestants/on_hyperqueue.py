"""HyperQueue: a server and one worker of two processors in this process; commands only.

Its Python functions start an interpreter each and give no result back, so there is nothing to
compare in the other workloads.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import workloads
from hyperqueue import Client, Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

SILENT = {"stdout": None, "stderr": None}


def commands(count: int) -> Job:
    job = Job()
    for _ in range(count):
        job.program(["true"], **SILENT)
    return job


def files(width: int) -> Job:
    job = Job(default_workdir=workloads.write_first_layer(width))
    done: dict[str, Any] = {}
    for left, right, made in workloads.file_tasks(width):
        after = [done[name] for name in (left, right) if name in done]
        line = workloads.shell_line(left, right, made)
        done[made] = job.program(["sh", "-c", line], deps=after, **SILENT)
    return job


JOBS: dict[str, Callable[[int], Job]] = {"commands": commands, "files": files}


def run(client: Client, job: Job) -> float:
    """When the last task was done, by a file's time: the client itself asks once a second."""
    end = Path.cwd() / "end"
    job.program(["touch", str(end)], deps=list(job.tasks), **SILENT)
    client.wait_for_jobs([client.submit(job)])
    return end.stat().st_mtime


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    with LocalCluster(worker_config=WorkerConfig(cores=2)) as cluster:
        client = cluster.client()
        run(client, commands(workloads.WARM_UP_TASKS))
        start = time()
        job = JOBS[name](size)
        seconds = run(client, job) - start
        if name == "files":
            workloads.check_last_layer(Path.cwd(), size)
        workloads.report(seconds, len(job.tasks))


if __name__ == "__main__":
    main()
