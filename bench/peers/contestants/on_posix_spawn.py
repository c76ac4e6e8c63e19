"""The floor of commands: two processes that do nothing but spawn `true` and wait for it."""

import os
import shutil
import sys
from time import perf_counter

import workloads


def spawn_and_wait(count: int) -> None:
    program = shutil.which("true")
    for _ in range(count):
        _, status = os.waitpid(os.posix_spawn(program, ["true"], os.environ), 0)
        assert status == 0


def main() -> None:
    assert sys.argv[1] == "commands", "the floor runs commands only"
    count = int(sys.argv[2])
    spawn_and_wait(workloads.WARM_UP_TASKS)
    start = perf_counter()
    children = []
    for share in (count // 2, count - count // 2):
        child = os.fork()
        if child == 0:
            spawn_and_wait(share)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    workloads.report(perf_counter() - start, count)


if __name__ == "__main__":
    main()
