"""A Python that has SAGA, made once in a virtual environment of its own below build/."""

import fcntl
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "build" / "saga"
# SAGA's two schedulers need only these of its dependencies; the rest draws and reads files.
WANTED = (
    ("--no-deps", "anrg-saga>=2.1,<3"),
    ("networkx", "numpy", "pydantic>=2", "pysmt", "z3-solver"),
)
LEAST = (3, 12)
SECONDS_MAX = 600


class NoSaga(Exception):  # noqa: N818 - a reason to skip
    """Says why SAGA cannot be had here."""


def saga_python() -> Path:
    """A Python with SAGA. Raises NoSaga."""
    python, ready = DIRECTORY / "bin" / "python", DIRECTORY / ".ready"
    with _locked(DIRECTORY.with_suffix(".lock")):
        if not ready.exists():
            shutil.rmtree(DIRECTORY, ignore_errors=True)
            _run(_new_enough(), "-m", "venv", str(DIRECTORY))
            for wanted in WANTED:
                _run(python, "-m", "pip", "install", "-q", "--retries", "1", *wanted)
            _run(python, "-c", "import saga.schedulers")
            ready.touch()
    return python


def _new_enough() -> Path:
    """A Python that is new enough for SAGA: this one, one on the PATH, or one beside it."""
    check = f"import sys, venv; sys.exit(sys.version_info[:2] < {LEAST})"
    for python in _pythons():
        done = subprocess.run([python, "-c", check], capture_output=True, timeout=SECONDS_MAX)
        if done.returncode == 0:
            return Path(python)
    raise NoSaga("SAGA needs Python 3.12 or newer, and there is none")


def _pythons() -> Iterator[str]:
    yield sys.executable
    for directory in os.get_exec_path():
        # A version manager's directory on the PATH may have stand-ins that start nothing.
        beside = os.path.join(os.path.dirname(directory), "versions", "3.1?*", "bin", "python3")
        yield from sorted(glob.glob(os.path.join(directory, "python3.1[0-9]")))
        yield from sorted(glob.glob(beside))


def _run(python: Path, *arguments: str) -> None:
    command = [str(python), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSaga(f"SAGA cannot be installed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise NoSaga(f"SAGA cannot be installed: {said[-1]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time make the environment."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
