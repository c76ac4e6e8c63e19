"""What is loaded before a command is known, and what Ctrl-C does while modules are being loaded."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dataward import WorkflowBuilder, write_workflow
from dataward.cli.commands import COMMANDS
from dataward.cli.exit_codes import ExitCode

HEAVY = {"numpy", "rich", "msgspec", "asyncio", "rich.progress", "typer"}
ROOMS = {
    f"dataward.{name}" for name in ("formats", "generate", "plan", "node", "live.session", "sim")
}

TELL_WHAT_IS_LOADED = """
import json, sys
from dataward.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("\\n" + json.dumps(list(sys.modules)))
"""

INTERRUPT_WHEN_LOADING = """
import os, signal, sys
from dataward.cli.main import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Finder())
main()
"""

COUNT_PROCESSES_WHEN_LOADING = """
import os, sys
from dataward.cli.main import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                print("processes:", len(children.read().split()))

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Finder())
main()
"""


def modules_loaded_by(*words: str) -> set[str]:
    line = [sys.executable, "-c", TELL_WHAT_IS_LOADED, *words]
    done = subprocess.run(line, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], [], ["--nosuch"], ["nosuch"]]
    + [[command, "--nosuch"] for command in COMMANDS]
    + [[command, "--help"] for command in COMMANDS if command not in ("generate", "simulate")],
    ids=" ".join,
)
def test_what_needs_no_workflow_loads_no_more_than_a_parser(words: list[str]) -> None:
    loaded = modules_loaded_by(*words)

    assert loaded & (HEAVY | ROOMS) == set()


@pytest.mark.parametrize("command", ["generate", "simulate"])
def test_help_that_lists_what_there_is_loads_only_what_it_lists(command: str) -> None:
    loaded = modules_loaded_by(command, "--help")

    assert loaded & {"rich", "dataward.sim", "dataward.live.session"} == set()


def test_importing_dataward_loads_no_more_than_what_is_used() -> None:
    code = "import dataward, json, sys; dataward.DatawardError; print(json.dumps([*sys.modules]))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    loaded = set(json.loads(done.stdout))
    assert loaded & (HEAVY | ROOMS) == set()
    assert "dataward.errors" in loaded


# What draws, explains, simulates, generates, reads other formats or makes calls.
NOT_OF_A_RUN = {
    "cloudpickle",
    "difflib",
    "html",
    "psutil",
    "rich.live",
    "rich.progress",
    "rich.table",
    "xml",
    "yaml",
    *(f"dataward.{name}" for name in ("calls", "generate", "sim", "api.simulate")),
    *(f"dataward.formats.{name}" for name in ("dax", "pegasus_yaml", "platform_yaml")),
    *(f"dataward.live.{name}" for name in ("call_pipes", "making_calls", "runner_process")),
    *(f"dataward.reports.{name}" for name in ("dag_svg", "gantt_svg", "svg", "trace", "why")),
}


@pytest.fixture
def one_task(tmp_path: Path) -> str:
    """The file of a workflow of one task; it is run in that directory."""
    wf = WorkflowBuilder("one")
    wf.command("true > {outputs}", outputs=["x"])
    write_workflow(wf.build(), tmp_path / "one.json")
    return str(tmp_path / "one.json")


def test_a_run_of_one_task_loads_no_more_than_it_needs(one_task: str) -> None:
    loaded = modules_loaded_by("run", one_task)

    assert Path("one.run/outputs/x").exists()
    assert loaded & NOT_OF_A_RUN == set()


def test_the_processes_that_run_tasks_start_before_the_node_is_loaded(one_task: str) -> None:
    line = [sys.executable, "-c", COUNT_PROCESSES_WHEN_LOADING, "dataward.node.node"]

    done = subprocess.run([*line, "run", one_task], capture_output=True, text=True)

    assert done.stdout.splitlines()[:2] == ["processes: 1", "one: complete"], done.stderr


def test_ctrl_c_while_the_node_is_loaded_ends_the_processes_too(one_task: str) -> None:
    line = [sys.executable, "-c", INTERRUPT_WHEN_LOADING, "dataward.node.node", "run", one_task]

    done = subprocess.run(line, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (ExitCode.INTERRUPTED, "")
    assert done.stderr == "dataward: interrupted\n"
    assert not Path("one.run/work").exists()  # removed when its processes have ended


def test_cycles_are_searched_for_seldom_and_not_at_the_end_of_the_process() -> None:
    code = (
        "import atexit, gc, sys; from dataward.cli.main import main; sys.argv[1:] = ['--version'];"
        "atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0)); main()"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.splitlines()[1:] == ["50000 True"], done.stderr


@pytest.mark.parametrize("first", ["dataward.cli.main", "dataward.generate", "dataward.errors"])
def test_generate_is_the_function_whatever_was_imported_before(first: str) -> None:
    code = f"import {first}; from dataward import generate; print(len(generate('bag', 3)))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == "3\n", done.stderr


def test_every_name_that_dataward_exports_is_there() -> None:
    import dataward

    assert {name for name in dataward.__all__ if getattr(dataward, name).__module__} == set(
        dataward.__all__
    )
    assert set(dataward.__all__) <= set(dir(dataward))
    with pytest.raises(AttributeError, match="nosuch"):
        _ = dataward.nosuch  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("dataward.cli.command_line", ["--version"]),
        ("dataward.cli.parsing", ["--help"]),
        ("dataward.cli.run", ["run", "nosuch.json"]),
        ("numpy", ["run", "nosuch.json"]),
        ("numpy.linalg", ["inspect", "nosuch.json"]),
        ("rich.console", ["inspect", "nosuch.json"]),
        ("dataward.runs.launching", ["run", "nosuch.json"]),
        ("dataward.sim.simulation", ["simulate", "nosuch.json"]),
    ],
)
def test_ctrl_c_while_a_module_is_loaded_is_one_sentence(module: str, words: list[str]) -> None:
    line = [sys.executable, "-c", INTERRUPT_WHEN_LOADING, module, *words]

    done = subprocess.run(line, capture_output=True, text=True)

    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stderr == "dataward: interrupted\n"
    assert done.stdout == ""


def test_a_process_that_was_told_to_ignore_ctrl_c_ignores_it() -> None:
    line = [sys.executable, "-c", INTERRUPT_WHEN_LOADING, "dataward.cli.parsing", "--version"]

    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )

    assert done.returncode == ExitCode.OK
    assert done.stdout.startswith("dataward ")


def test_every_command_is_listed_in_one_line_even_on_a_narrow_terminal() -> None:
    line = [sys.executable, "-m", "dataward.cli.main", "--help"]

    said = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "COLUMNS": "64"})

    listed = said.stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [row.strip().split("  ")[0] for row in listed] == list(COMMANDS)
    assert all(row.rstrip().endswith(".") for row in listed)
