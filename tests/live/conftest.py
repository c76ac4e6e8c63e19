"""Workflows run for real, by the command line: in this process if it can be, else in its own."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.cli.main import main
from live.real_runs import Ended, arguments_for, ended

Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _a_plain_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty directory, with the interpreter of the tests as ``python3``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a workflow as ``dataward run`` does; what it said as JSON, unless ``text`` is asked."""

    def run(
        workflow: WorkflowBuilder | Path, *options: str, text: bool = False, name: str = "w"
    ) -> Ended:
        arguments = arguments_for(workflow, options, name, json=not text)
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        return ended(int(left.value.code or 0), said.out, said.err, is_json=not text)

    return run
