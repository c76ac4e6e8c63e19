"""concurrent.futures.ProcessPoolExecutor with two processes, one call at a time.

It takes no futures as arguments, so the callback of a call submits what waited for it. For chains
that measured a tenth faster than going level by level with `map`, and no slower for the tree.
"""

import sys
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Lock
from time import perf_counter

import workloads
from workloads import Peer


def chains(pool: ProcessPoolExecutor, links: int) -> int:
    ends: SimpleQueue[int] = SimpleQueue()

    def grow(length: int, end: Future[int]) -> None:
        if length == links:
            ends.put(end.result())
        else:
            link = pool.submit(workloads.noop, end.result())
            link.add_done_callback(partial(grow, length + 1))

    for i in range(workloads.CHAINS):
        pool.submit(workloads.noop, i).add_done_callback(partial(grow, 1))
    results = sorted(ends.get() for _ in range(workloads.CHAINS))
    assert results == list(range(workloads.CHAINS))
    return workloads.CHAINS * links


def tree(pool: ProcessPoolExecutor, leaves: int) -> int:
    root: SimpleQueue[int] = SimpleQueue()
    levels: list[list[list[int]]] = [[[]]]
    while (below := len(levels[-1]) * workloads.FAN_IN) < leaves:
        levels.append([[] for _ in range(below)])
    levels.reverse()
    assert len(levels[0]) * workloads.FAN_IN == leaves, "leaves are a power of ten"
    # The callback of a call that is done already runs here, beside those in the pool's thread.
    lock = Lock()

    def on_done(level: int, place: int, number: Future[int]) -> None:
        if level == len(levels):
            root.put(number.result())
            return
        place //= workloads.FAN_IN
        part = levels[level][place]
        with lock:
            part.append(number.result())
            complete = len(part) == workloads.FAN_IN
        if complete:
            total = pool.submit(workloads.add, *part)
            total.add_done_callback(partial(on_done, level + 1, place))

    for i in range(leaves):
        pool.submit(workloads.noop, 1).add_done_callback(partial(on_done, 0, i))
    assert root.get() == leaves
    return leaves + sum(map(len, levels))


def files(pool: ProcessPoolExecutor, width: int) -> int:
    directory = workloads.write_first_layer(width)
    tasks = workloads.file_tasks(width)
    made_by = {made: i for i, (_, _, made) in enumerate(tasks)}
    parents = [
        {made_by[name] for name in (left, right) if name in made_by} for left, right, _ in tasks
    ]
    children: list[list[int]] = [[] for _ in tasks]
    for i, before in enumerate(parents):
        for parent in before:
            children[parent].append(i)
    missing = [len(before) for before in parents]
    errors: SimpleQueue[BaseException | None] = SimpleQueue()
    lock = Lock()

    def start(i: int) -> None:
        run = pool.submit(workloads.run_shell, str(directory), workloads.shell_line(*tasks[i]))
        run.add_done_callback(partial(on_done, i))

    def on_done(i: int, run: Future[int]) -> None:
        for child in children[i]:
            with lock:
                missing[child] -= 1
                ready = not missing[child]
            if ready:
                start(child)
        errors.put(run.exception())

    for i, before in enumerate(parents):
        if not before:
            start(i)
    assert not any(errors.get() for _ in tasks)
    workloads.check_last_layer(directory, width)
    return len(tasks)


BY_CALLBACK = {f.__name__: f for f in (chains, tree, files)}


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(workloads.noop, range(workloads.WARM_UP_TASKS)))
        start = perf_counter()
        if name in BY_CALLBACK:
            tasks = BY_CALLBACK[name](pool, size)
        else:
            peer = Peer(pool.submit, lambda futures: [future.result() for future in futures])
            tasks = workloads.WORKLOADS[name](peer, size)
        workloads.report(perf_counter() - start, tasks)


if __name__ == "__main__":
    main()
