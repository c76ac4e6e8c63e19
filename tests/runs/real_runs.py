"""What tests of real runs share: how one is asked for, and what it came to."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataward import WorkflowBuilder, write_workflow

RUN_DIRECTORY = Path("w.run")
OUTPUTS = RUN_DIRECTORY / "outputs"
LOOKS_MAX = 100_000  # at a process that should be gone: a few of them suffice, all take seconds


@dataclass(frozen=True)
class Ended:
    """What a run said, and the code it left with."""

    code: int
    out: str
    err: str
    facts: dict[str, Any]

    @property
    def reasons(self) -> dict[str, str]:
        return {failure["task"]: failure["reason"] for failure in self.facts["failures"]}

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Complete, skipped, failed, and failed since something they depend on did."""
        names = ("complete", "skipped", "failed", "failed_with_parent")
        complete, skipped, failed, with_parent = (self.facts[name] for name in names)
        return complete, skipped, failed, with_parent


def ended(code: int, out: str, err: str, *, is_json: bool) -> Ended:
    return Ended(code, out, err, json.loads(out) if is_json and out else {})


def arguments_for(
    workflow: WorkflowBuilder | Path, options: Iterable[str], name: str = "w", *, json: bool = True
) -> list[str]:
    """The words of a ``run`` command, in the current directory; two slots if nothing is said."""
    if isinstance(workflow, WorkflowBuilder):
        path = Path(f"{name}.json")
        write_workflow(workflow.build(), path)
    else:
        path = workflow
    words = ["run", str(path), *options]
    if "--slots" not in words:
        words += ["--slots", "2"]
    return [*words, "--json"] if json else words


def started(arguments: Iterable[str]) -> "subprocess.Popen[str]":
    """The command line in a process of its own, which tests may interrupt and kill."""
    return subprocess.Popen(
        [sys.executable, "-m", "dataward.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(process: "subprocess.Popen[str]", *, is_json: bool = True) -> Ended:
    out, err = process.communicate(timeout=60)
    return ended(process.returncode, out, err, is_json=is_json)


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Interrupt a run that was started without ``--json``, and wait until it says that it stops."""
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    for line in process.stderr:
        if "stopping:" in line:
            return
    raise AssertionError("it did not say that it stops")


def hashes(directory: Path) -> dict[str, str]:
    """Every file below a directory, by name, with a digest of what it holds."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def processes_in(directory: Path) -> list[int]:
    """The processes that have their working directory in this one, or had until it was removed."""
    inside = str(directory.resolve()) + os.sep
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd").startswith(inside):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def outlives_many_looks(pid: int) -> bool:
    """Whether a process that should end by itself is still there after having had the time to."""
    return all(is_alive(pid) for _ in range(LOOKS_MAX))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


LOG = "ran.log"


def log_line(task: str) -> str:
    """A shell line that notes that the task has run, outside its own directory."""
    return f"echo {task} >> {Path.cwd()}/{LOG}"


def ran() -> list[str]:
    """The tasks that ran since this was asked last, in order of their names."""
    path = Path(LOG)
    lines = sorted(path.read_text().split()) if path.exists() else []
    path.unlink(missing_ok=True)
    return lines
