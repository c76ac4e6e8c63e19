"""dataward on a cluster of two node processes with a slot each, and one Valkey, all on loopback.

Functions go through `Executor(access=...)`; commands through `dataward submit`, with uploads, TLS,
hashes and commits.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import on_dataward
import workloads
from workloads import Peer

import dataward

PROGRAM = str(Path(sys.executable).with_name("dataward"))
ACCESS = "lab/submit.access"


def dataward_says(*words: str) -> dict:
    done = subprocess.run([PROGRAM, *words, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dataward {words[0]}: {' '.join(done.stderr.split())}")
    return json.loads(done.stdout)


@contextmanager
def cluster_of_two() -> Iterator[None]:
    dataward_says("cluster", "up", "lab", "--nodes", "2", "--slots", "1")
    try:
        yield
    finally:
        dataward_says("cluster", "down", "lab")


@contextmanager
def executor_on_two() -> Iterator[Peer]:
    with cluster_of_two(), dataward.Executor(access=ACCESS) as executor:
        yield Peer(executor.submit, lambda futures: [future.result() for future in futures])


def run_workflow(name: str, size: int) -> None:
    """The time from the first submission to the last commit, and that of the whole command."""
    wf = on_dataward.WORKFLOWS[name](size)
    dataward.write_workflow(wf.build(), "workflow.json")
    dataward.write_workflow(on_dataward.commands(workloads.WARM_UP_TASKS).build(), "warm.json")
    with cluster_of_two():
        dataward_says("submit", "warm.json", "--access", ACCESS, "--fresh", "--wait", "--quiet")
        start = perf_counter()
        ended = dataward_says(
            "submit", "workflow.json", "--access", ACCESS, "--fresh", "--wait", "--quiet"
        )
        whole = perf_counter() - start
    assert ended["counts"] == {"complete": len(wf)}, ended
    workloads.report(ended["seconds"], len(wf), whole_seconds=whole)


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    if name in on_dataward.WORKFLOWS:
        run_workflow(name, size)
    else:
        workloads.main(executor_on_two)


if __name__ == "__main__":
    main()
