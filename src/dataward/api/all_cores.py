"""Calls a function many times, on all cores, each core in a process of its own."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, resource_tracker
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


def cores_here() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Put Ctrl-C off. Processes that are started meanwhile never hear it."""
    resource_tracker.ensure_running()  # which would let Ctrl-C through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def called_on_all_cores(
    function: Callable[[A], R], arguments: Sequence[A], cores: int = 0
) -> Iterator[tuple[A, R]]:
    """Each argument with its result, as soon as that is there; begun in the order given.

    ``cores`` limits the processes; 0: as many as there are cores. With one, the calls are made in
    this process. Whoever stops before the end, or is interrupted, ends the calls under way.
    """
    processes = min(cores or cores_here(), len(arguments))
    if processes <= 1:
        for argument in arguments:
            yield argument, function(argument)
        return
    before = set(active_children())
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        with deaf_to_ctrl_c():
            waiting = {pool.submit(function, argument): argument for argument in arguments}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:
        with deaf_to_ctrl_c():
            for process in set(active_children()) - before:
                process.terminate()
        raise
    finally:
        with deaf_to_ctrl_c():
            pool.shutdown(cancel_futures=True)
