"""What holds for every command: help, errors, exit codes, pipes and poor terminals."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from cli.conftest import Dataward
from dataward import WorkflowBuilder, generate, write_workflow
from dataward.cli.commands import COMMANDS
from dataward.cli.exit_codes import ExitCode


def a_file(path: str = "montage.json", tasks: int = 30) -> Path:
    write_workflow(generate("montage", tasks), path)
    return Path(path)


def a_foreign_file() -> Path:
    wf = WorkflowBuilder("größe")
    wf.task("ä", name="日本語", runtime_seconds=1.0)
    wf.task("[red]x[/red]", name="<b>&\"'", after=["ä"], runtime_seconds=2.0)
    write_workflow(wf.build(), "foreign.json")
    return Path("foreign.json")


def test_dataward_alone_prints_its_help(dataward: Dataward) -> None:
    said = dataward()

    assert said.code == ExitCode.OK
    assert all(command in said.out for command in COMMANDS)
    assert "Exit codes" in said.out
    assert said.err == ""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help_with_examples(dataward: Dataward, command: str, flag: str) -> None:
    said = dataward(*command.split(), flag)

    assert said.code == ExitCode.OK
    lines = [line.strip() for line in said.out.splitlines()]
    assert "Examples:" in lines
    assert any(line.startswith(f"• dataward {command}") for line in lines)
    assert "`" not in said.out


def test_the_version_is_the_installed_one(dataward: Dataward) -> None:
    said = dataward("--version")

    assert said.code == ExitCode.OK
    assert said.out == f"dataward {version('dataward')}\n"


def test_the_package_runs_as_the_command() -> None:
    words = [sys.executable, "-m", "dataward", "--version"]

    said = subprocess.run(words, capture_output=True, text=True, check=True)

    assert said.stdout == f"dataward {version('dataward')}\n"


@pytest.mark.parametrize(
    ("words", "said_words"),
    [
        (["frobnicate"], ["frobnicate", "dataward --help"]),
        (["inspct", "x.json"], ["inspect"]),
        (["inspect"], ["FILE", "dataward inspect --help"]),
        (["inspect", "a", "b"], ["b", "dataward inspect --help"]),
        (["generate", "bag", "--bogus"], ["--bogus", "dataward generate --help"]),
        (["generate", "bag", "--tasks", "many"], ["--tasks", "integer"]),
        (["generate", "bag", "--tasks", "0"], ["--tasks"]),
        (["inspect", "m.json", "--edges", "all"], ["--edges", "declared", "files", "both"]),
        (["inspect", "m.json", "--cores", "1000000000000"], ["--cores"]),
        (["bound", "--cores", "1000000000000"], ["--cores"]),
        (["bound", "--seed", "-1"], ["--seed"]),
    ],
)
def test_a_senseless_command_line_gets_one_sentence_and_code_2(
    dataward: Dataward, words: list[str], said_words: list[str]
) -> None:
    said = dataward(*words)

    assert said.code == ExitCode.USAGE
    assert said.out == ""
    assert said.err.startswith("dataward: ")
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in said_words)


def test_a_file_name_cannot_draw_on_the_terminal(dataward: Dataward) -> None:
    said = dataward("inspect", "\x1b]0;owned\x07\n.json")

    assert said.code == ExitCode.BAD_INPUT
    assert said.err == "dataward: \\x1b]0;owned\\x07\\n.json: there is no such file\n"


def test_results_piped_have_no_escape_codes(process: Dataward) -> None:
    said = process("inspect", a_file())

    assert said.code == ExitCode.OK
    assert "\x1b" not in said.out
    assert said.err == ""


def test_a_terminal_gets_colour_unless_it_asks_for_none() -> None:
    command = [sys.executable, "-m", "dataward.cli.main", "--help"]

    fancy = on_a_terminal(command)
    plain = on_a_terminal(command, NO_COLOR="1")

    colour = re.compile(rb"\x1b\[[0-9;]*3[0-7]")
    assert colour.search(fancy)
    assert not colour.search(plain)
    assert b"Start here" in plain


def on_a_terminal(command: list[str], **env: str) -> bytes:
    """What a command prints on a pseudo-terminal of its own."""
    import pty

    master, slave = pty.openpty()
    whole = {**os.environ, "TERM": "xterm-256color", **env}
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=whole) as child:
        os.close(slave)
        said = b""
        try:
            while chunk := os.read(master, 65536):
                said += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        assert child.wait() == 0
    os.close(master)
    return said


def test_a_terminal_that_knows_only_ascii_sees_plain_bars_and_spelled_out_names(
    process: Dataward,
) -> None:
    said = process("inspect", a_foreign_file(), env={"PYTHONIOENCODING": "ascii"})

    assert said.code == ExitCode.OK
    assert said.out.isascii()
    assert "####" in said.out
    assert r"\u65e5\u672c\u8a9e" in said.out
    assert "[red]x[/red]" in said.out
    assert "Traceback" not in said.err


def test_help_on_an_ascii_terminal_is_plain(process: Dataward) -> None:
    said = process("generate", "--help", env={"PYTHONIOENCODING": "ascii"})

    assert said.code == ExitCode.OK
    assert said.out.isascii()
    assert "* montage:" in said.out


def test_json_is_utf8_even_on_an_ascii_terminal(process: Dataward) -> None:
    said = process("inspect", a_foreign_file(), "--json", env={"PYTHONIOENCODING": "ascii"})

    assert said.code == ExitCode.OK
    assert json.loads(said.out)["name"] == "größe"


@pytest.mark.parametrize("words", [["inspect", "montage.json"], ["generate", "--help"]])
def test_a_reader_that_leaves_early_is_no_failure(process: Dataward, words: list[str]) -> None:
    a_file()

    said = process(*words, shell="| head -1 > /dev/null")

    assert said.code == ExitCode.OK
    assert said.err == ""


def test_json_longer_than_a_pipe_to_a_reader_that_leaves_is_no_failure(process: Dataward) -> None:
    wf = WorkflowBuilder("chain")
    for i in range(5000):
        wf.task(f"a-rather-long-name-{i}", after=[f"a-rather-long-name-{i - 1}"] if i else [])
    write_workflow(wf.build(), "chain.json")

    said = process("inspect", "chain.json", "--json", shell="| head -1 > /dev/null")

    assert said.code == ExitCode.OK
    assert said.err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_said_plainly(process: Dataward) -> None:
    a_file()

    plain = process("inspect", "montage.json", shell="> /dev/full")
    as_json = process("inspect", "montage.json", "--json", shell="> /dev/full")

    sentence = "cannot write the result: No space left on device"
    assert plain.code == as_json.code == ExitCode.CANNOT_WRITE
    assert plain.err == f"dataward: {sentence}\n"
    assert json.loads(as_json.err) == {"error": sentence, "exit_code": 4}


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["inspect", "nosuch.json"], "nosuch.json: there is no such file", 3),
        (["inspect", "-x"], "there is no option -x; see dataward inspect --help", 2),
        (["nosuch"], "there is no command nosuch; see dataward --help", 2),
        (["simulate"], "the argument FILE is missing; see dataward simulate --help", 2),
    ],
)
def test_with_json_an_error_is_one_line_of_json_on_stderr(
    dataward: Dataward, words: list[str], said: str, code: int
) -> None:
    ended = dataward(*words, "--json")

    assert ended.code == code
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert json.loads(ended.err) == {"error": said, "exit_code": code}


def test_ctrl_c_is_one_word_and_code_130(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dataward.formats.read_workflow", interrupted)

    said = dataward("inspect", "montage.json")

    assert said.code == ExitCode.INTERRUPTED
    assert said.err == "dataward: interrupted\n"
    assert said.out == ""
