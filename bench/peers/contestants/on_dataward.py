"""dataward with two slots: functions through its executor, commands through `dataward run`.

`memory` is a workload of its own: what a task costs that waits for another.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

import psutil
import workloads
from workloads import Peer

import dataward


@contextmanager
def dataward_of_two() -> Iterator[Peer]:
    with dataward.Executor(slots=2) as executor:
        yield Peer(executor.submit, lambda futures: [future.result() for future in futures])


def commands(count: int) -> dataward.WorkflowBuilder:
    wf = dataward.WorkflowBuilder("commands")
    for i in range(count):
        wf.task(f"t{i}", command=("true",))
    return wf


def files(width: int) -> dataward.WorkflowBuilder:
    workloads.write_first_layer(width)
    wf = dataward.WorkflowBuilder("files")
    for i in range(width):
        wf.file(f"f0-{i}", workloads.FILE_BYTES)
    for left, right, made in workloads.file_tasks(width):
        command = ("sh", "-c", workloads.shell_line(left, right, made))
        wf.task(made, command=command, inputs=[left, right], outputs=[made])
    return wf


WORKFLOWS: dict[str, Callable[[int], dataward.WorkflowBuilder]] = {
    "commands": commands,
    "files": files,
}


def run_workflow(name: str, size: int) -> None:
    """Both the time from the first submission to the last commit, and the whole process's."""
    wf = WORKFLOWS[name](size)
    dataward.write_workflow(wf.build(), "workflow.json")
    program = str(Path(sys.executable).with_name("dataward"))
    command = [program, "run", "workflow.json", "--slots", "2", "--out", "out", "--quiet", "--json"]
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    whole = perf_counter() - start
    if done.returncode:
        sys.exit(f"dataward run: exit code {done.returncode}: {' '.join(done.stderr.split())}")
    summary = json.loads(done.stdout)
    assert summary["complete"] == summary["attempts"] == len(wf), "every task ran, and ran once"
    if name == "files":
        workloads.check_last_layer(Path(summary["outputs"]), size)
    seconds = summary["makespan_seconds"]
    workloads.report(seconds, len(wf), whole_seconds=whole)


def wait_for_file(path: str) -> int:
    while not Path(path).exists():
        sleep(0.01)
    return 0


def after(gate: int, x: int) -> int:
    return gate + x


def resident_bytes() -> int:
    """Of this process and those it started: the tasks may wait in either."""
    me = psutil.Process()
    return sum(p.memory_info().rss for p in (me, *me.children(recursive=True)))


def measure_waiting(count: int) -> None:
    gate_file = Path.cwd() / "gate"
    with dataward_of_two() as peer:
        list(peer.gather([peer.submit(workloads.noop, i) for i in range(1000)]))
        gate = peer.submit(wait_for_file, str(gate_file))
        before, start = resident_bytes(), perf_counter()
        futures = [peer.submit(after, gate, i) for i in range(count)]
        sleep(1.0)  # What is still under way to another process arrives.
        grown = resident_bytes() - before
        gate_file.touch()
        assert sum(peer.gather(futures)) == count * (count - 1) // 2
        workloads.report(perf_counter() - start, count, bytes_each=grown / count)


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    if name == "memory":
        measure_waiting(size)
    elif name in WORKFLOWS:
        run_workflow(name, size)
    else:
        workloads.main(dataward_of_two)


if __name__ == "__main__":
    main()
