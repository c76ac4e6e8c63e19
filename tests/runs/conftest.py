"""Workflows run for real, by the command line: in this process if it can be, else in its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.cli.main import main
from plain_place import a_plain_place
from runs.real_runs import Ended, arguments_for, ended

__all__ = ["a_plain_place"]

Run = Callable[..., Ended]


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
