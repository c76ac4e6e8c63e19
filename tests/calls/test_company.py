"""Calls that share a process: none waits for one that turns out slow, and none is made twice."""

import os
from collections import Counter
from concurrent.futures import wait
from pathlib import Path

import pytest

from calls.gates import Gate
from dataward import Executor, ProcessDiedError

MANY = 400
PATIENCE_SECONDS = 60  # before a test fails: nobody waits this long for a call that is made


def pass_by(number, word, path=""):
    """Quick, unless it is given a path: then it waits until somebody opens the pipe there."""
    if path:
        with open(path, "wb" if word == "writes" else "rb"):
            pass
    return number


def crash_at(number, bad, log):
    with open(log, "a") as file:
        file.write(f"{number}\n")
    if number == bad:
        os._exit(3)
    return number


def learned_as_quick(executor: Executor, function, *args) -> None:
    for _ in range(2):  # so that hundreds of calls travel together from now on
        assert list(executor.map(function, range(MANY), *([arg] * MANY for arg in args)))


def submitted_at_once(executor: Executor, gate: Gate, function, calls):
    """The futures of calls that all become ready together, so that they are bundled."""
    begun = executor.submit(gate.wait, "")
    futures = [executor.submit(after, begun, function, *args) for args in calls]
    gate.open()
    return futures


def after(_, function, *args):
    return function(*args)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_calls_that_wait_for_each_other_meet_though_both_were_quick_before(tmp_path, gate):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    calls = [(number, "") for number in range(MANY)]
    calls[7], calls[8] = (7, "writes", path), (8, "reads", path)

    with Executor(2) as executor:
        learned_as_quick(executor, after, pass_by, 1, "")
        futures = submitted_at_once(executor, gate, pass_by, calls)

        waiting = wait(futures, PATIENCE_SECONDS).not_done
        pipe = os.open(path, os.O_RDWR)  # in any case, let them end
        wait(futures)
        os.close(pipe)
    assert not waiting
    assert [future.result() for future in futures] == list(range(MANY))


@pytest.mark.parametrize("slow", [0, 7, MANY - 1])
def test_no_call_waits_for_one_that_turns_out_slow(tmp_path, gate, slow):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    calls = [(number, "") for number in range(MANY)]
    calls[slow] = (slow, "reads", path)

    with Executor(2) as executor:
        learned_as_quick(executor, after, pass_by, 1, "")
        futures = submitted_at_once(executor, gate, pass_by, calls)

        others = [future for number, future in enumerate(futures) if number != slow]
        waiting = wait(others, PATIENCE_SECONDS).not_done
        was_slow = not futures[slow].done()
        with open(path, "wb"):
            pass
    assert not waiting
    assert was_slow
    assert futures[slow].result() == slow


def test_what_depends_on_a_result_does_not_wait_for_the_rest_of_its_bundle(tmp_path, gate):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    calls = [(number, "") for number in range(MANY)]
    calls[1] = (1, "reads", path)

    with Executor(2) as executor:
        learned_as_quick(executor, after, pass_by, 1, "")
        futures = submitted_at_once(executor, gate, pass_by, calls)
        last = executor.submit(sum, [future for future in futures if future is not futures[1]])

        waiting = wait([last], PATIENCE_SECONDS).not_done
        with open(path, "wb"):
            pass
    assert not waiting
    assert last.result() == sum(range(MANY)) - 1


def test_no_call_is_made_twice_when_one_of_them_ends_its_process(tmp_path, gate):
    log = tmp_path / "log"

    with Executor(2) as executor:
        learned_as_quick(executor, after, crash_at, -1, 0, os.devnull)
        calls = [(number, 30, str(log)) for number in range(MANY)]
        futures = submitted_at_once(executor, gate, crash_at, calls)

        assert isinstance(futures[30].exception(), ProcessDiedError)
        made = [future.result() for future in futures if future is not futures[30]]
    assert made == [number for number in range(MANY) if number != 30]
    assert set(Counter(log.read_text().split()).values()) == {1}


def test_a_lone_call_that_ends_its_process_is_made_once(tmp_path):
    log = tmp_path / "log"

    with Executor(1) as executor:
        assert isinstance(executor.submit(crash_at, 1, 1, str(log)).exception(), ProcessDiedError)
    assert log.read_text() == "1\n"
