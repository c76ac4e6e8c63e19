"""Calls that raise, return what cannot travel, or take their process with them."""

import ctypes
import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from concurrent.futures import BrokenExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from calls.gates import Gate
from dataward import Executor, ProcessDiedError
from dataward.live.call_results import InFile
from dataward.stores.journal import DirectoryLock


class PlainError(Exception):
    pass


class PickyError(Exception):
    """Cannot be made from what is left of it."""

    def __init__(self, first, second):
        super().__init__("only one")


class HeldError(Exception):
    def __init__(self):
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class MuteError(Exception):
    def __init__(self):
        self.lock = threading.Lock()

    def __str__(self):
        raise ValueError("no words")


def fail(error, *args):
    raise error(*args)


def same(value):
    return value


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [PlainError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, MemoryError]
)
def test_what_a_call_raises_its_future_raises(executor, error):
    future = executor.submit(fail, error, 3)

    assert type(future.exception()) is error
    assert future.exception().args == (3,)
    assert executor.submit(os.getpid).result() > 0


def test_the_traceback_of_the_call_is_shown_as_the_cause(executor):
    error = executor.submit(fail, PlainError, "oh").exception()

    shown = "".join(traceback.format_exception(error))

    assert "in fail\n" in shown
    assert shown.index("PlainError: oh") < shown.index("The above exception was the direct cause")
    assert "_result" not in shown


def test_the_cause_of_an_error_is_in_its_traceback(executor):
    def f():
        try:
            int("x")
        except ValueError as error:
            raise PlainError("later") from error

    assert "invalid literal" in str(executor.submit(f).exception().__cause__)


@pytest.mark.parametrize(
    ("error", "args", "text"),
    [
        (PickyError, (1, 2), "PickyError: only one"),
        (HeldError, (), "HeldError: holds a lock"),
        (MuteError, (), "MuteError: "),
    ],
)
def test_an_error_that_cannot_travel_is_told_in_words(executor, error, args, text):
    bad, good = executor.submit(fail, error, *args), executor.submit(same, 1)

    with pytest.raises(RuntimeError, match=text):
        bad.result()
    assert good.result() == 1


class HomeboundError(Exception):
    """Can be loaded in the process that raised it, and nowhere else."""

    def __reduce__(self):
        return load_at_home, (os.getpid(),)


def load_at_home(process):
    if os.getpid() != process:
        raise ValueError("not here")
    return HomeboundError()


def test_an_error_that_the_caller_cannot_load_fails_its_own_call_only(executor):
    bad, good = executor.submit(fail, HomeboundError), executor.submit(same, 1)

    with pytest.raises(RuntimeError, match=r"cannot be loaded.*not here") as caught:
        bad.result(60)
    assert "HomeboundError" in str(caught.value.__cause__)
    assert good.result() == 1


def test_a_call_that_calls_itself_for_ever_is_a_recursion_error(executor):
    def again():
        return again()

    with pytest.raises(RecursionError):
        executor.submit(again).result()


def test_a_result_that_cannot_be_pickled_is_an_error_of_that_call_only(executor):
    def generate():
        yield 1

    futures = [executor.submit(f) for f in (generate, threading.Lock, list)]

    for future, what in zip(futures[:2], ("generate, a generator", "lock"), strict=True):
        with pytest.raises(pickle.PicklingError, match=f"the result of .*{what}"):
            future.result()
    assert futures[2].result() == []


def test_a_result_that_cannot_be_loaded_says_so_when_it_is_asked_for(executor):
    class Odd:
        def __reduce__(self):
            return int, ("not a number",)

    future = executor.submit(Odd)

    with pytest.raises(ValueError, match="not a number"):
        future.result()


def test_a_function_that_cannot_be_loaded_fails_its_own_calls_only(executor):
    class Odd:
        def __reduce__(self):
            return int, ("not a number",)

        def __call__(self):
            return 1

    bad, good = executor.submit(Odd()), executor.submit(same, 1)

    with pytest.raises(ValueError, match="not a number"):
        bad.result()
    assert good.result() == 1


# --- processes that die --------------------------------------------------------------------------


def crash_at(bad, number, how, log):
    if number == bad:
        with open(log, "a") as file:
            file.write(".")
        how()
    return number


def leave():
    os._exit(3)


def fault():
    ctypes.string_at(0)


def fork_and_leave():
    if not os.fork():
        signal.pause()
    os._exit(4)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (leave, "exit code 3"),
        (fault, r"signal 11 \(SIGSEGV\)"),
        (fork_and_leave, "exit code 4"),
    ],
)
def test_a_call_that_ends_its_process_fails_alone(executor, tmp_path, how, reason):
    log = tmp_path / "log"
    warm = [executor.submit(crash_at, -1, number, how, str(log)) for number in range(100)]
    assert [future.result() for future in warm] == list(range(100))

    futures = [executor.submit(crash_at, 30, number, how, str(log)) for number in range(60)]
    below = executor.submit(same, futures[30])

    with pytest.raises(ProcessDiedError, match=f"crash_at failed: its process .*{reason}"):
        futures[30].result()
    assert isinstance(below.exception(), ProcessDiedError)
    assert [f.result() for n, f in enumerate(futures) if n != 30] == [*range(30), *range(31, 60)]
    assert log.read_text() == "."


def test_those_that_depend_on_a_crash_in_their_own_bundle_fail_too(executor):
    def crash(number):
        if number == 7:
            os._exit(1)
        return number

    assert [f.result() for f in [executor.submit(crash, n + 100) for n in range(50)]]
    chain = [executor.submit(crash, 1)]
    chain.append(executor.submit(crash, 7))
    last = executor.submit(max, chain)
    after = executor.submit(crash, last)

    assert isinstance(after.exception(60), ProcessDiedError)
    assert chain[0].result() == 1


def test_a_fork_that_comes_back_from_the_call_is_not_another_runner(executor):
    futures = [executor.submit(os.fork) for _ in range(3)]

    assert all(future.result() > 0 for future in futures)
    assert executor.submit(same, 1).result() == 1


def test_a_process_that_somebody_kills_between_calls_is_replaced(executor):
    os.kill(executor.submit(os.getpid).result(), signal.SIGKILL)

    assert [executor.submit(same, n).result() for n in range(5)] == list(range(5))


# --- time limits ---------------------------------------------------------------------------------


def wait_at(bad, number):
    if number == bad:
        signal.pause()
    return number


def test_a_call_that_runs_too_long_is_ended_and_blamed_alone():
    with Executor(2, time_limit_seconds=0.5) as executor:
        assert len(list(executor.map(wait_at, [-1] * 100, range(100)))) == 100
        futures = [executor.submit(wait_at, 30, number) for number in range(60)]

        with pytest.raises(ProcessDiedError, match=r"it ran longer than its time limit of 0\.5 s$"):
            futures[30].result()
        assert isinstance(futures[30].exception(), TimeoutError)
        assert [f.result() for n, f in enumerate(futures) if n != 30] == [
            *range(30),
            *range(31, 60),
        ]


# --- an executor that breaks down ----------------------------------------------------------------


def test_when_its_directory_is_taken_away_everybody_is_told(tmp_path):
    executor = Executor(1, directory=tmp_path / "d")
    gate = Gate(tmp_path)
    begun = executor.submit(gate.wait)
    waiting = executor.submit(same, begun)
    gate.meet()

    shutil.rmtree(tmp_path / "d")
    new = executor.submit(same, 1)

    for future in (begun, waiting, new):
        with pytest.raises(BrokenExecutor, match="broken down"):
            future.result(60)
    with pytest.raises(BrokenExecutor):
        executor.submit(same, 1)
    executor.shutdown()
    gate.open()


def test_when_the_caller_cannot_read_a_result_everybody_is_told(tmp_path, monkeypatch):
    """A long error is in a file, and the caller may have too many files open to read it."""

    def read(file):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), file.path)

    monkeypatch.setattr(InFile, "read", read)
    executor = Executor(1)
    bad = executor.submit(fail, PlainError, "long" * 10_000)
    waiting = executor.submit(same, bad)

    for future in (bad, waiting):
        with pytest.raises(BrokenExecutor, match="Too many open files"):
            future.result(60)
    executor.shutdown()


def refuse_when_let_through(passage):
    passage()
    raise ValueError("no")


def test_who_submits_while_an_executor_breaks_down_leaves_the_other_calls_to_its_thread(tmp_path):
    """Whoever submits has the executor's lock, which a callback that submits would wait for."""
    gate = Gate(tmp_path)
    breaks, has_submitted = threading.Event(), threading.Event()
    told_in: SimpleQueue[str] = SimpleQueue()

    def on_done(future):
        breaks.set()
        has_submitted.wait(60)
        with pytest.raises(BrokenExecutor, match="initializer raised ValueError"):
            executor.submit(same, 1)
        told_in.put(threading.current_thread().name)

    def submit():
        breaks.wait(60)
        with pytest.raises(BrokenExecutor, match="initializer raised ValueError"):
            executor.submit(same, 1)
        has_submitted.set()

    executor = Executor(1, initializer=refuse_when_let_through, initargs=(gate.wait,))
    for future in [executor.submit(same, number) for number in range(3)]:
        future.add_done_callback(on_done)
    submitter = threading.Thread(target=submit, daemon=True)
    submitter.start()
    gate.open()

    assert [told_in.get(timeout=60) for _ in range(3)] == ["dataward"] * 3
    submitter.join()
    executor.shutdown()


# --- the end of the caller -----------------------------------------------------------------------


def ended_script(body: str, temporary: Path) -> "subprocess.CompletedProcess[str]":
    """A script of its own, whose temporary files go where the test can see them."""
    script = temporary.parent / "script.py"
    script.write_text("import os, signal\nfrom dataward import Executor\n" + body)
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("body", "out"),
    [
        ("e = Executor(2)\nprint(e.submit(max, 1, 2).result())", "2\n"),
        ("Executor(1)", ""),
        ("e = Executor(1)\ne.submit(print, e.submit(max, 1, 2))", "2\n"),
        ("f = Executor(1).submit(bytes, 100000)\ne = Executor(1)\ne.submit(max, 1, 2)", ""),
        ("e = Executor(1)\nf = e.submit(max, 1, 2)\ne.shutdown(wait=False)", ""),
        ("def f(x): return x + 1\nwith Executor(1) as e: print(e.submit(f, 1).result())", "2\n"),
        (
            "class Own: pass\nwith Executor(1) as e:\n"
            "    print(type(e.submit(Own).result()) is Own)",
            "True\n",
        ),
    ],
)
def test_a_script_ends_and_leaves_nothing_behind(tmp_path, body, out):
    done = ended_script(body, tmp_path / "t")

    assert (done.stdout, done.stderr, done.returncode) == (out, "", 0)
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.parametrize(
    "late", ["executor.submit(max, 1, 2).result()", "Executor(1).submit(max, 1, 2).result()"]
)
def test_what_is_submitted_when_the_interpreter_has_ended_is_refused(tmp_path, late):
    body = f"""
import atexit
def late():
    try:
        {late}
    except RuntimeError as error:
        print(error)
executor = Executor(1)
atexit.register(late)
"""

    done = ended_script(body, tmp_path / "t")

    assert done.stdout == "cannot schedule new futures after interpreter shutdown\n"
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_script_that_is_killed_takes_its_calls_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    body = (
        "import signal\nfrom dataward import Executor\n"
        "def wait():\n    print('begun', flush=True)\n    signal.pause()\n"
        "Executor(1).submit(wait).result()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", body], stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "begun\n"
        script.kill()

        assert script.stdout.read() == ""  # which it is once nobody is left who could print
    (left,) = tmp_path.glob("dataward-calls-*")
    os.utime(left, (0, 0))  # one that has just begun would be spared
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with Executor(1) as executor:
        assert executor.submit(max, 1, 2).result() == 2
        assert not left.exists(), "nobody else would remove it"


def test_what_another_executor_has_is_not_taken_for_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = {"dataward-calls-of-mine", "dataward-calls-just-begun", "dataward-demo.run"}
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "dataward-calls-just-begun" / "held").mkdir()
    (tmp_path / "dataward-calls-just-begun" / "held" / "lock").touch()
    DirectoryLock(tmp_path / "dataward-demo.run").release()
    with Executor(1) as first, Executor(1) as second:
        kept = first.submit(bytes, 100_000)
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        second.submit(max, 1, 2).result()
    with Executor(1) as third:
        third.submit(max, 1, 2).result()

    assert len(kept.result()) == 100_000
    assert {path.name for path in tmp_path.iterdir()} >= others


def test_a_fork_of_the_caller_does_not_remove_what_is_the_callers():
    executor = Executor(1)
    directory = executor._loop._directory.path
    future = executor.submit(bytes, 10_000)
    executor.shutdown()
    child = os.fork()
    if not child:
        del future
        os._exit(0)
    os.waitpid(child, 0)

    assert directory.exists()
    assert len(future.result()) == 10_000
