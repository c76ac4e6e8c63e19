"""Started with standard streams closed, as some daemons start things."""

import subprocess
import sys
from pathlib import Path

import pytest

from dataward import WorkflowBuilder, write_workflow

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]


def run_with(closed: str, *words: str) -> int:
    return subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], timeout=300).returncode


@pytest.mark.parametrize("closed", CLOSED)
def test_every_task_still_prints_into_its_own_log(closed):
    wf = WorkflowBuilder()
    for i in range(8):
        wf.command(f"echo out {i}; echo err {i} >&2", id=f"t{i}")
    write_workflow(wf.build(), Path("w.json"))

    code = run_with(closed, sys.executable, "-m", "dataward.cli.main", "run", "w.json")

    assert code == 0
    logs = Path("w.run/1/logs")
    assert sorted(path.read_text() for path in logs.iterdir()) == sorted(
        f"{stream} {i}\n" for i in range(8) for stream in ("out", "err")
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_an_executor_still_tells_what_calls_came_to(closed):
    script = (
        "from dataward import Executor\n"
        "with Executor(2) as e: found = list(e.map(abs, range(-50, 0)))\n"
        "open('found', 'w').write(str(sum(found)))\n"
    )

    assert run_with(closed, sys.executable, "-c", script) == 0
    assert Path("found").read_text() == "1275"
