"""The five workloads, for every contestant that takes futures as arguments.

A contestant is a script: `python on_ray.py functions 10000` prints one line of JSON with the
seconds and the tasks. Starting and stopping are not counted. This file imports nothing but the
standard library, for it is loaded in every peer's own environment.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

CHAINS = 100
FAN_IN = 10
LAYERS = 10
FILE_BYTES = 1024
WARM_UP_TASKS = 20


class Peer(NamedTuple):
    """What a script must be able to do: submit a call, and wait for many results in order."""

    submit: Callable[..., Any]
    gather: Callable[[list[Any]], Iterable[Any]]


def noop(x: int) -> int:
    return x


def add(*numbers: int) -> int:
    return sum(numbers)


def run_true() -> int:
    return subprocess.run(["true"], check=True).returncode


def run_shell(directory: str, line: str, *after: object) -> int:
    """`after` is what the call has to wait for; nothing else is done with it."""
    return subprocess.run(["sh", "-c", line], cwd=directory, check=True).returncode


FUNCTIONS = (noop, add, run_true, run_shell)


def functions(peer: Peer, count: int) -> int:
    results = peer.gather([peer.submit(noop, i) for i in range(count)])
    assert sum(results) == count * (count - 1) // 2
    return count


def chains(peer: Peer, links: int) -> int:
    """All chains grow together, a link each in turn."""
    ends = list(range(CHAINS))
    for _ in range(links):
        ends = [peer.submit(noop, end) for end in ends]
    assert list(peer.gather(ends)) == list(range(CHAINS))
    return CHAINS * links


def tree(peer: Peer, leaves: int) -> int:
    level = [peer.submit(noop, 1) for _ in range(leaves)]
    count = len(level)
    while len(level) > 1:
        level = [peer.submit(add, *part) for part in in_tens(level)]
        count += len(level)
    assert list(peer.gather(level)) == [leaves]
    return count


def commands(peer: Peer, count: int) -> int:
    assert not any(peer.gather([peer.submit(run_true) for _ in range(count)]))
    return count


def files(peer: Peer, width: int) -> int:
    directory = write_first_layer(width)
    done: dict[str, Any] = {}
    for left, right, made in file_tasks(width):
        after = [done[name] for name in (left, right) if name in done]
        line = shell_line(left, right, made)
        done[made] = peer.submit(run_shell, str(directory), line, *after)
    assert not any(peer.gather(list(done.values())))
    check_last_layer(directory, width)
    return len(done)


WORKLOADS = {f.__name__: f for f in (functions, chains, tree, commands, files)}


def in_tens(level: list[Any]) -> list[list[Any]]:
    return [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]


def file_tasks(width: int) -> list[tuple[str, str, str]]:
    """Two files of the layer before and the one made of them, for each task; parents come first."""
    return [
        (f"f{layer}-{i}", f"f{layer}-{(i + 1) % width}", f"f{layer + 1}-{i}")
        for layer in range(LAYERS)
        for i in range(width)
    ]


def shell_line(left: str, right: str, made: str) -> str:
    # `cat` of two whole files would double them in each layer, to a megabyte in the last.
    return f"head -q -c {FILE_BYTES // 2} {left} {right} > {made}"


def write_first_layer(width: int) -> Path:
    """The files nobody makes, in the current directory, which is fresh for each run."""
    for i in range(width):
        Path(f"f0-{i}").write_bytes(b"%15d\n" % i * (FILE_BYTES // 16))
    return Path.cwd()


def check_last_layer(directory: Path, width: int) -> None:
    sizes = {(directory / f"f{LAYERS}-{i}").stat().st_size for i in range(width)}
    assert sizes == {FILE_BYTES}, sizes


def report(seconds: float, tasks: int, **more: float) -> None:
    print(json.dumps({"seconds": seconds, "tasks": tasks, **more}), flush=True)


def main(open_peer: Callable[[], AbstractContextManager[Peer]]) -> None:
    """Runs the workload that the command line names, on a peer that is up and warm."""
    workload, size = WORKLOADS[sys.argv[1]], int(sys.argv[2])
    with open_peer() as peer:
        list(peer.gather([peer.submit(noop, i) for i in range(WARM_UP_TASKS)]))
        start = perf_counter()
        tasks = workload(peer, size)
        report(perf_counter() - start, tasks)
