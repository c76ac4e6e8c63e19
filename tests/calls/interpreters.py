"""An interpreter on this machine that came with its own tests, and an environment to run them in.

The environment is kept in ``build``, and made again only when the project's settings change.
"""

import fcntl
import importlib.util
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
KEPT = REPOSITORY / "build" / "standard-suite"
SUITE = "test.test_concurrent_futures"
OLDEST = (3, 11)
NEEDED = ("pytest", "pytest-xdist", "hypothesis")  # of the group dev
SET_UP_SECONDS_MAX = 900.0

_PROBE = f"""
import importlib.util, json, sys
has_suite = importlib.util.find_spec({SUITE!r}) is not None
print(json.dumps([sys.executable, sys.version_info[:3], has_suite]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    version: tuple[int, ...]

    @property
    def shown(self) -> str:
        return "Python " + ".".join(map(str, self.version))


class NoEnvironment(Exception):  # noqa: N818 - not an error where there is no network
    """An environment cannot be set up; the text says why."""


def this_one_has_its_own_tests() -> bool:
    try:
        return importlib.util.find_spec(SUITE) is not None
    except ModuleNotFoundError:  # there is not even a package of tests
        return False


def with_its_own_tests() -> Interpreter | None:
    """The oldest that will do: the most like the interpreter of all other tests."""
    for path in sorted(candidates(), key=lambda path: (minor_version(path.name), str(path))):
        found = probed(path)
        if found is not None:
            return found
    return None


def candidates() -> Iterator[Path]:
    """Every ``python3.N`` along the PATH, and those of pyenv that are not on it."""
    yield from pythons_in(Path(place) for place in os.get_exec_path())
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from pythons_in(root.glob("versions/*/bin"))


def pythons_in(places: Iterator[Path]) -> Iterator[Path]:
    for place in places:
        for path in place.glob("python3.*"):
            if (3, minor_version(path.name)) >= OLDEST:
                yield path


def minor_version(name: str) -> int:
    """N of a program named ``python3.N``; -1 for other names."""
    found = re.fullmatch(r"python3\.(\d+)", name)
    return int(found[1]) if found else -1


def probed(path: Path) -> Interpreter | None:
    """The interpreter, if there is one behind this path and it has the tests."""
    try:
        done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, timeout=60)
        program, version, has_suite = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # such as a shim of pyenv for a version that is not chosen
    return Interpreter(program, tuple(version)) if has_suite else None


def environment_of(interpreter: Interpreter) -> Path:
    """The Python of an environment with dataward as it is here. Raises NoEnvironment."""
    KEPT.mkdir(parents=True, exist_ok=True)
    directory = KEPT / "python{}.{}".format(*interpreter.version)
    ready = directory / ".ready"
    wanted = f"{interpreter}\n{(REPOSITORY / 'pyproject.toml').read_text()}"
    with open(KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes of pytest may ask at the same time
        if not ready.exists() or ready.read_text() != wanted:
            set_up(directory, interpreter)
            ready.write_text(wanted)
    return directory / "bin" / "python"


def set_up(directory: Path, interpreter: Interpreter) -> None:
    tried([interpreter.path, "-m", "venv", "--clear", str(directory)])
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    python = str(directory / "bin" / "python")
    tried([python, *install, "--editable", str(REPOSITORY), *requirements()])


def requirements() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    developing = project["dependency-groups"]["dev"]
    return [one for one in developing if re.split("[>=<]", one)[0] in NEEDED]


def tried(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SET_UP_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoEnvironment(str(error)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise NoEnvironment(next((line for line in said if "ERROR" in line), said[-1]).strip())
