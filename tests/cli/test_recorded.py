"""What holds for all commands that look at past runs, whatever a run is called."""

import pytest

from cli.conftest import Dataward
from dataward.cli.exit_codes import ExitCode

COMMANDS = ("runs", "why", "logs", "export", "clean")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name", ["\x1b]0;owned\x07", "x" * 5000, "..", "/dev/null", ""], ids=range(5)
)
def test_an_odd_name_of_a_run_never_ends_in_a_traceback(
    dataward: Dataward, command: str, name: str
) -> None:
    words = {
        "runs": ["runs", name],
        "why": ["why", "task", "--run", name],
        "logs": ["logs", name, "task"],
        "export": ["export", name, "-o", "measured.json"],
        "clean": ["clean", name],
    }

    said = dataward(*words[command])

    assert said.code in (ExitCode.OK, ExitCode.BAD_INPUT, ExitCode.USAGE)
    assert "\x1b" not in said.err
    assert "Traceback" not in said.err
