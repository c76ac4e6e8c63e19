"""Who takes part, in what, and how one run of one contestant is started, timed and cleared away."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psutil

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "contestants"
SECONDS_MAX = 120.0

# The size each script is given: calls, links of each of 100 chains, leaves, commands, and files in
# each of 10 layers.
SIZES = {"functions": 10_000, "chains": 100, "tree": 10_000, "commands": 2_000, "files": 100}
QUICK_SIZES = {workload: size // 10 for workload, size in SIZES.items()}

# Logs may still be written while they are removed.
LENIENT = {"ignore_cleanup_errors": True}

# Runs what follows in a network namespace with nothing but loopback.
IN_OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")

ALL = tuple(SIZES)
COMMANDS = ("commands", "files")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A script, the environment it runs in, and what it can take part in."""

    name: str
    script: str
    # The environment's name and its dependency group's ending; dataward's own Python if empty.
    environment: str = ""
    package: str = ""
    options: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ALL
    # Where more would take too long; the rate is held to be that of all.
    size_max: Mapping[str, int] = field(default_factory=dict)

    def size(self, workload: str, sizes: Mapping[str, int]) -> int:
        return min(sizes[workload], self.size_max.get(workload, sizes[workload]))


DATAWARD = Contestant("dataward", "on_dataward.py", package="dataward")
ON_CLUSTER = Contestant("dataward, cluster of 2", "on_dataward_cluster.py", package="dataward")
POOL = Contestant("ProcessPoolExecutor", "on_process_pool.py")
SPAWN = Contestant("bare posix_spawn", "on_posix_spawn.py", workloads=("commands",))
RAY = Contestant("Ray", "on_ray.py", "ray", "ray")
SATURATED_DASK = Contestant(
    "Dask (saturation inf)", "on_dask.py", "dask", "distributed", options=("inf",)
)
SNAKEMAKE = Contestant(
    "Snakemake",
    "on_snakemake.py",
    "snakemake",
    "snakemake",
    workloads=COMMANDS,
    size_max={"commands": 200},
)
CONTESTANTS = (
    DATAWARD,
    ON_CLUSTER,
    POOL,
    SPAWN,
    Contestant("executorlib", "on_executorlib.py", "executorlib", "executorlib"),
    Contestant("Dask", "on_dask.py", "dask", "distributed"),
    SATURATED_DASK,
    RAY,
    Contestant("Parsl", "on_parsl.py", "parsl", "parsl"),
    Contestant("HyperQueue", "on_hyperqueue.py", "hyperqueue", "hyperqueue", workloads=COMMANDS),
    SNAKEMAKE,
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a script counted; `whole_seconds` includes its start and stop, where it tells them.

    `network_bytes` is what went over a network of the run's own, `told_bytes` what the contestant
    itself counts as moved between nodes.
    """

    seconds: float
    tasks: int
    whole_seconds: float | None = None
    bytes_each: float | None = None
    cpu_seconds: float | None = None
    network_bytes: float | None = None
    told_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no number: `short` is for the table, `reason` for the reader of stderr."""

    short: str
    reason: str


def run_once(
    contestant: Contestant, python: Path, workload: str, size: int, *, own_network: bool = False
) -> Result | Failure:
    """One run in a fresh directory; nothing it started is left afterwards.

    With a network of its own, where that can be had, all that is sent over it is the run's.
    """
    mark = uuid4().hex
    with (
        # Beside the repository's files, not in /tmp, which may be memory.
        TemporaryDirectory(dir=REPOSITORY, prefix=".bench-peers-", **LENIENT) as directory,
        # Sockets are made in here, and a socket's path may not be long.
        TemporaryDirectory(prefix="bench-", **LENIENT) as temporary,
    ):
        command = [str(python), str(SCRIPTS / contestant.script), workload, str(size)]
        environment = _environment(python, directory, temporary, mark)
        before: tuple[str, ...] = ()
        if own_network and can_have_own_network():
            before = IN_OWN_NETWORK
            environment["DATAWARD_BENCH_OWN_NETWORK"] = "1"
        process = subprocess.Popen(
            [*before, *command, *contestant.options],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return Failure(f">{SECONDS_MAX:.0f} s", f"stopped after {SECONDS_MAX:.0f} s")
        finally:
            _clear_away(process, mark)
    return _result(process.returncode, stdout, stderr)


@cache
def can_have_own_network() -> bool:
    """Whether this user may make network namespaces, as root on Linux may."""
    try:
        return not subprocess.run([*IN_OWN_NETWORK, "true"], capture_output=True).returncode
    except OSError:
        return False


def _environment(python: Path, directory: str, temporary: str, mark: str) -> dict[str, str]:
    """The scripts' own directory to import from, and places that go away with the run."""
    return {
        **os.environ,
        "HOME": directory,
        "TMPDIR": temporary,
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(SCRIPTS),
        # Peers were compiled when they were installed; dataward's sources are on first use.
        "PYTHONDONTWRITEBYTECODE": "",
        "RAY_USAGE_STATS_ENABLED": "0",
        "DATAWARD_BENCH_RUN": mark,
    }


def _clear_away(process: subprocess.Popen[str], mark: str) -> None:
    """Ends the process group, then whoever left it but still carries this run's mark."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for other in psutil.process_iter():
        try:
            if other.environ().get("DATAWARD_BENCH_RUN") == mark:
                other.kill()
                other.wait(5.0)
        except psutil.Error:
            continue


def _result(code: int, stdout: str, stderr: str) -> Result | Failure:
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    if code or not lines:
        said = stderr.strip().splitlines() or ["it said nothing"]
        return Failure("failed", f"exit code {code}: {said[-1]}")
    return Result(**json.loads(lines[-1]))


def own_python() -> Path:
    return Path(sys.executable)
