"""Where tests run that start processes: each in an empty directory of its own."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def a_plain_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty directory, with the interpreter of the tests as ``python3``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
