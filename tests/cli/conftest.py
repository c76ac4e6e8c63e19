"""The command line as a stranger meets it: in this process if it can be, else in its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataward.cli.main import main

Dataward = Callable[..., "Spoken"]


@dataclass(frozen=True)
class Spoken:
    """What a command said, and the code it left with."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _a_plain_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty directory, in a terminal of the usual width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING", "TERM", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def dataward(capsys: pytest.CaptureFixture[str]) -> Dataward:
    def run(*arguments: str | Path) -> Spoken:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Spoken(int(left.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def process() -> Dataward:
    """The same in a process of its own, with ``shell`` put behind it and ``env`` around it."""

    def run(*arguments: str | Path, env: dict[str, str] | None = None, shell: str = "") -> Spoken:
        words = " ".join(f"'{argument}'" for argument in arguments)
        line = f"'{sys.executable}' -m dataward.cli.main {words} {shell}"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            env={**os.environ, "PYTHONUTF8": "0", **(env or {})},
            timeout=60,
        )
        return Spoken(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
