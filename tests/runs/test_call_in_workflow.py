"""Functions as tasks of a workflow, run by `dataward run`."""

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from dataward import WorkflowBuilder, read_workflow, write_workflow
from runs.real_runs import OUTPUTS


def add(*numbers, **named):
    return sum(numbers) + sum(named.values())


def shout(source, target):
    Path(target).write_text(Path(source).read_text().upper())
    return len(Path(source).read_text())


def result_of(call) -> object:
    return pickle.loads((OUTPUTS / call.file).read_bytes())


def test_results_go_from_call_to_call_however_deep(run):
    wf = WorkflowBuilder()
    one, two = wf.call(add, 1), wf.call(add, 1, named=1)
    total = wf.call(lambda numbers, more: sum(numbers) + more["b"], [one, two], {"b": two})

    assert run(wf).counts == (3, 0, 0, 0)
    assert result_of(total) == 5


def test_a_call_reads_and_writes_files_in_its_own_directory(run):
    Path("greeting").write_text("hello")
    wf = WorkflowBuilder()
    length = wf.call(shout, "greeting", "LOUD", inputs=["greeting"], outputs=["LOUD"])
    wf.command("wc -c < {inputs} > {outputs}", inputs=["LOUD"], outputs=["count"])
    where = wf.call(os.getcwd)

    assert run(wf).counts == (3, 0, 0, 0)
    assert (OUTPUTS / "count").read_text().strip() == "5"
    assert result_of(length) == 5
    assert result_of(where) != os.getcwd()


def test_a_command_may_read_what_a_call_returned(run):
    wf = WorkflowBuilder()
    array = wf.call(np.arange, 5, id="numbers")
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).sum())"
    wf.command(
        f'python3 -c "{script}" {{inputs}} > {{outputs}}', inputs=[array.file], outputs=["sum"]
    )

    assert run(wf).counts == (2, 0, 0, 0)
    assert (OUTPUTS / "sum").read_text() == "10\n"


def test_a_call_is_made_again_only_if_its_code_or_its_arguments_changed(run):
    def workflow(factor: int, function=add) -> WorkflowBuilder:
        wf = WorkflowBuilder()
        first = wf.call(function, 2, id="first")
        wf.call(lambda x, y: x * y, first, factor, id="second")
        return wf

    def add_more(*numbers):
        return sum(numbers) + 1

    keep = ("--keep", "all")
    assert run(workflow(3), *keep).counts == (2, 0, 0, 0)
    assert run(workflow(3), *keep).counts == (0, 2, 0, 0)
    assert run(workflow(4), *keep).counts == (1, 1, 0, 0)
    assert run(workflow(4, add_more), *keep).counts == (2, 0, 0, 0)
    assert pickle.loads((OUTPUTS / "second.pickle").read_bytes()) == 12


SCRIPT = """
import enum
import numpy as np
import lib
from dataward import WorkflowBuilder, write_workflow

FACTOR = 3

class Colour(enum.Enum):
    RED = 1

class Shape:
    colour = Colour.RED
    def area(self): return FACTOR

def helper(x): return x * FACTOR

def work(x, *, names=("a", "b")):
    squares = {n: n * n for n in range(x)}
    assert x not in {"some", "words", "in", "a", "set"}
    return helper(sum(squares.values())) + np.pi + Shape().area() + len(names) + lib.more(x)

wf = WorkflowBuilder("w")
wf.call(sum, [wf.call(work, 3), wf.call(lib.more, 2), wf.call(work, x=4, names=["c"])])
write_workflow(wf.build(), "w.json")
"""


def test_the_same_script_makes_the_same_workflow_whatever_the_hash_seed():
    """The first compiles ``lib``, the others find it compiled."""
    Path("script.py").write_text(SCRIPT)
    Path("lib.py").write_text("def more(x, y='y'): return {'x': x, 'y': y, 'more': x} and 1\n")
    made = []
    for seed in ("1", "2", "3"):
        surroundings = {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "script.py"], check=True, env=os.environ | surroundings)
        made.append(read_workflow("w.json"))

    assert list(Path("__pycache__").glob("lib.*"))
    assert made[0] == made[1] == made[2]


class Own:
    def __init__(self, content):
        self.content = content


def test_a_class_of_the_script_is_the_same_class_in_all_calls(run):
    def look(own):
        return type(own) is Own, own.content

    wf = WorkflowBuilder()
    looked = wf.call(look, wf.call(Own, 5))

    assert run(wf).counts == (2, 0, 0, 0)
    assert result_of(looked) == (True, 5)


def test_a_function_that_raises_fails_its_task_with_the_traceback_in_its_log(run):
    def divide(x):
        print("about to")
        return 1 / x

    wf = WorkflowBuilder()
    wf.call(add, wf.call(divide, 0, id="bad"), id="below")

    end = run(wf)

    assert end.counts == (0, 0, 1, 1)
    assert end.reasons["bad"] == "it raised ZeroDivisionError: division by zero"
    (err,) = Path("w.run/1/logs").glob("bad.*.err")
    assert "in divide" in err.read_text()
    (out,) = Path("w.run/1/logs").glob("bad.*.out")
    assert out.read_text() == "about to\n"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: sys.exit(3), "it raised SystemExit: 3"),
        (lambda: (i for i in "ab"), "the result of <lambda>, a generator, cannot be pickled"),
        (lambda: os._exit(5), "its process ended with exit code 5"),
    ],
)
def test_other_ways_to_fail_are_told(run, function, reason):
    wf = WorkflowBuilder()
    wf.call(function, id="bad")

    assert reason in run(wf).reasons["bad"]


def test_a_function_that_cannot_be_loaded_is_told(run):
    Path("gone.py").write_text("class Thing: pass\n")
    sys.path.insert(0, os.getcwd())
    from gone import Thing

    wf = WorkflowBuilder()
    wf.call(add, Thing(), id="bad")
    sys.path.pop(0)
    Path("gone.py").unlink()

    reason = run(wf).reasons["bad"]

    assert reason == (
        "its function or arguments cannot be loaded: ModuleNotFoundError: No module named 'gone'"
    )


def test_a_call_that_does_not_write_what_it_declares_fails(run):
    wf = WorkflowBuilder()
    wf.call(add, 1, id="bad", outputs=["never"])

    assert "did not write 'never'" in run(wf).reasons["bad"]


def test_a_call_that_runs_too_long_is_ended(run):
    def wait():
        import signal

        signal.pause()

    wf = WorkflowBuilder()
    wf.call(wait, id="bad")

    end = run(wf, "--time-limit", "0.3")

    assert end.reasons["bad"] == "it ran longer than its time limit of 0.3 s"


def test_a_call_is_tried_again_as_often_as_it_may_be(run, tmp_path):
    def flaky(directory):
        tries = Path(directory) / "tries"
        before = tries.read_text() if tries.exists() else ""
        tries.write_text(before + ".")
        if len(before) < 2:
            raise ValueError("not yet")
        return len(before)

    wf = WorkflowBuilder()
    call = wf.call(flaky, str(tmp_path), retries=2)

    assert run(wf).counts == (1, 0, 0, 0)
    assert result_of(call) == 2


def test_a_workflow_with_calls_survives_its_file(tmp_path):
    wf = WorkflowBuilder("w")
    first = wf.call(functools.partial(add, 1), 2)
    wf.call(add, first, id="second", cores=2, retries=1, after=[first.task])

    write_workflow(wf.build(), "w.json")

    assert read_workflow("w.json") == wf.build()


def eat(size_bytes: int) -> None:
    eaten = b"x" * size_bytes
    while eaten:
        signal.pause()


def test_a_call_that_eats_more_than_its_memory_is_ended(run):
    wf = WorkflowBuilder()
    wf.call(eat, 100 << 20, id="greedy", memory_bytes=64 << 20)
    modest = wf.call(len, b"x" * 100, id="modest", memory_bytes=64 << 20)

    end = run(wf)

    assert end.counts == (1, 0, 1, 0)
    assert end.reasons["greedy"].startswith("it used ")
    assert end.reasons["greedy"].endswith(" MiB of memory, and may use 64 MiB")
    assert result_of(modest) == 100


def blocked_signals() -> set[int]:
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())}


def leave_a_thread_behind() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def print_for_ever() -> None:
    go_on = threading.Event()

    def speak() -> None:
        while not go_on.wait(0.0001):
            os.write(1, b"still here\n")

    threading.Thread(target=speak, daemon=True).start()


def test_what_a_thread_prints_that_was_left_behind_is_in_no_log_of_others(run):
    wf = WorkflowBuilder()
    wf.call(print_for_ever, id="noisy")
    for i in range(5):
        wf.command(f"sleep 0.01; echo {i}", id=f"command{i}", after=["noisy"])

    assert run(wf, "--slots", "1").counts == (6, 0, 0, 0)
    logs = [next(Path("w.run/1/logs").glob(f"command{i}.*.out")) for i in range(5)]
    assert [log.read_text() for log in logs] == [f"{i}\n" for i in range(5)]


def leave_a_process_with_a_thread() -> None:
    started = threading.Event()

    def start() -> None:
        subprocess.Popen(["sleep", "1000"])
        started.set()
        threading.Event().wait()

    threading.Thread(target=start, daemon=True).start()
    started.wait()


def test_a_process_that_a_thread_has_left_keeps_nobody_waiting(run):
    wf = WorkflowBuilder()
    wf.call(leave_a_process_with_a_thread, id="call")
    wf.command("echo done", id="command", after=["call"])

    assert run(wf, "--slots", "1").counts == (2, 0, 0, 0)


def test_calls_and_commands_take_turns_in_one_process(run):
    """Between calls it waits for signals, which a call must not find blocked, nor take away."""
    wf = WorkflowBuilder()
    before: list[str] = []
    for turn in range(3):
        wf.command("true", id=f"command{turn}", after=before)
        wf.call(leave_a_thread_behind, id=f"thread{turn}", after=[f"command{turn}"])
        seen = wf.call(blocked_signals, id=f"seen{turn}", after=[f"thread{turn}"])
        before = [f"seen{turn}"]

    assert run(wf, "--slots", "1").counts == (9, 0, 0, 0)
    assert result_of(seen) == set()


def put_nothing_in_place_of_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


VANDALS = [
    lambda: os.close(1),
    lambda: (os.close(1), os.close(2))[0],
    put_nothing_in_place_of_streams,
    lambda: sys.stdout.close(),
    lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN) and None,
    lambda: os.environ.update(GREETING="changed", PATH="/nowhere"),
    lambda: os.umask(0o777) and None,
]


@pytest.mark.parametrize("vandal", VANDALS)
def test_what_a_call_does_to_its_process_others_do_not_see(run, monkeypatch, vandal):
    monkeypatch.setenv("GREETING", "hello")
    wf = WorkflowBuilder()
    wf.call(vandal, id="vandal")
    wf.command("echo $GREETING; cat; touch made", id="command", after=["vandal"])
    wf.call(print, "again", id="call", after=["command"])
    wf.command("echo $GREETING >&2; umask", id="last", after=["call"])

    assert run(wf, "--slots", "1").counts == (4, 0, 0, 0)

    def printed(task: str, stream: str = "out") -> str:
        (log,) = Path("w.run/1/logs").glob(f"{task}.*.{stream}")
        return log.read_text()

    assert printed("command") == "hello\n"
    assert printed("call") == "again\n"
    assert printed("last", "err") == "hello\n"
    assert printed("last") == subprocess.check_output(["sh", "-c", "umask"], text=True)


def a_script(function: str, above: str = "") -> str:
    return f"""
import sys
from dataward import WorkflowBuilder, write_workflow
FACTOR = 2
{above}
{function}

wf = WorkflowBuilder("calls")
wf.call(scale, 21, id="t")
write_workflow(wf.build(), "w.json")
"""


@pytest.mark.parametrize(
    ("function", "above", "runs"),
    [
        ("def scale(n): return FACTOR * n", "# a comment\n\n\n", False),
        ("def scale(n):\n    # a comment\n    return FACTOR * n", "", False),
        ("def scale(n): return FACTOR + n", "", True),
        ("def scale(n): return FACTOR * n * 1.0", "", True),
        ("def scale(n): return FACTOR * n", "FACTOR = 3", True),
        ("def scale(n): return helper(n)", "def helper(n): return FACTOR * n", True),
    ],
)
def test_a_call_runs_again_if_its_code_has_changed_and_not_if_only_its_lines_have(
    function, above, runs, run
):
    for text in (a_script("def scale(n): return FACTOR * n"), a_script(function, above)):
        Path("script.py").write_text(text)
        subprocess.run([sys.executable, "script.py"], check=True)
        end = run(Path("w.json"))

    assert end.counts == ((1, 0, 0, 0) if runs else (0, 1, 0, 0))


def test_a_traceback_still_names_the_line(run):
    Path("script.py").write_text(a_script("def scale(n):\n\n    raise ValueError(n)"))
    subprocess.run([sys.executable, "script.py"], check=True)

    end = run(Path("w.json"))

    line = Path("script.py").read_text().split("\n").index("    raise ValueError(n)") + 1
    assert f"line {line}, in scale" in "\n".join(end.facts["failures"][0]["stderr"])
