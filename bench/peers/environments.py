"""A virtual environment for each peer, made on first use from its dependency group."""

import subprocess
import sys
import tomllib
from pathlib import Path

from bench.peers.contest import REPOSITORY, Contestant, Failure, own_python

ENVIRONMENTS = REPOSITORY / ".venv-peers"
SET_UP_SECONDS_MAX = 900.0


def python_of(contestant: Contestant) -> Path | Failure:
    """The contestant's Python, set up if it is not; a peer that cannot be had is a failure."""
    if not contestant.environment:
        return own_python()
    wanted = _requirements(contestant.environment)
    directory = ENVIRONMENTS / contestant.environment
    ready = directory / ".ready"
    if not ready.exists() or ready.read_text() != "\n".join(wanted):
        failure = _set_up(directory, wanted)
        if failure:
            return failure
        ready.write_text("\n".join(wanted))
    return directory / "bin" / "python"


def version_of(contestant: Contestant, python: Path) -> str:
    """What is installed, for the table; empty for what comes with Python."""
    if not contestant.package:
        return ""
    line = f"from importlib.metadata import version; print(version({contestant.package!r}))"
    done = subprocess.run([str(python), "-c", line], capture_output=True, text=True)
    return done.stdout.strip()


def _requirements(environment: str) -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return list(project["dependency-groups"][f"peers-{environment}"])


def _set_up(directory: Path, wanted: list[str]) -> Failure | None:
    shown = directory.relative_to(REPOSITORY)
    print(f"setting up {shown} (once): {', '.join(wanted)}", file=sys.stderr, flush=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    python = str(directory / "bin" / "python")
    for command in ([sys.executable, "-m", "venv", str(directory)], [python, *install]):
        failure = _tried(command)
        if failure:
            print(f"going on without it: {failure.reason}", file=sys.stderr, flush=True)
            return failure
    return None


def _tried(command: list[str]) -> Failure | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SET_UP_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Failure("not installed", str(error))
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        return Failure("not installed", said[-1])
    return None
