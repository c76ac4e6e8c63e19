"""What holds for all commands that look at past runs: help that works, and no traceback."""

import pytest

from cli.conftest import Dataward
from cli.recorded_runs import a_recorded_run
from dataward.cli.exit_codes import ExitCode
from dataward.model.builder import WorkflowBuilder
from reports.lives import ran, run_started

COMMANDS = ("runs", "why", "logs", "export", "clean")


@pytest.fixture
def _runs(_a_plain_place: None) -> None:
    wf = WorkflowBuilder("montage")
    wf.task("mAdd_1", runtime_seconds=1.0)
    for _ in range(3):
        a_recorded_run([run_started(), *ran("mAdd_1", 1.0)], "montage.run", workflow=wf.build())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(dataward: Dataward, command: str) -> None:
    said = dataward(command, "--help")

    assert said.code == ExitCode.OK
    lines = [line.strip() for line in said.out.splitlines()]
    assert "Examples:" in lines
    assert any(line.startswith(f"• dataward {command}") for line in lines)
    assert "`" not in said.out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("_runs")
def test_the_examples_in_the_help_work(
    dataward: Dataward, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    examples = [
        line.strip(" •").split()[1:]
        for line in dataward(command, "--help").out.splitlines()
        if line.strip().startswith("• dataward ") and "--access" not in line  # no cluster is here
    ]

    codes = {" ".join(words): dataward(*words).code for words in examples}

    assert codes
    assert set(codes.values()) == {ExitCode.OK}, codes


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
