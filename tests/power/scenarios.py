"""Runs of a small workflow with everything in it that has a way of its own to the disk."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from dataward import WorkflowBuilder, write_workflow
from power.effects import Recording
from power.recorder import Plan, record

PLACE, REPORTS, SAID, LOG = Path("place"), Path("reports"), Path("said"), Path("ran.log")
LARGE_BYTES = (1 << 20) + 500  # such files are hashed by the node, not by the runner process
ODD = "odd/nä me $(1)"


def a_workflow(empty: str = "none") -> WorkflowBuilder:
    """A diamond with directories, several outputs, odd names, empty, large and linked files."""
    wf = WorkflowBuilder("power")
    lines = {
        "split": "head -n1 in > left; tail -n1 in > right",
        "tree": "mkdir -p tree/in/empty; cp left tree/in/; : > tree/none; "
        "cp left tree/run; chmod +x tree/run",
        "odd": f"cat right other > '{ODD}'",
        "empty": f": > {empty}",
        "large": f"yes $(cat other) | head -c {LARGE_BYTES} > large",
        "linked": "ln left same",
        "join": "(cat left tree/run; cksum < large) > result; "
        "mkdir -p shown/deep; cp result shown/deep/; : > shown/empty; cp large shown/",
    }
    files = {
        "split": ("in", "left right"),
        "tree": ("left", "tree/"),
        "empty": ("right", empty),
        "large": ("other", "large"),
        "linked": ("left", "same"),
        "join": ("left tree/ large", "result shown/"),
    }
    for task, line in lines.items():
        reads, writes = files.get(task, ("right other", ""))
        note = f"echo {task} >> {shlex.quote(str(LOG.absolute()))}; "
        wf.command(
            note + line, id=task, inputs=reads.split(), outputs=writes.split() or [ODD], name=task
        )
    return wf


@dataclass(frozen=True)
class Scenario:
    """``killed_at`` is the result at whose publishing a first process was killed; the recording
    goes on with the one that resumes. With ``rerun``, it goes on with a second run, of a workflow
    whose input and one of whose outputs have changed."""

    name: str
    options: tuple[str, ...] = ()
    killed_at: str = ""
    rerun: bool = False

    def commands(self, without: str = "") -> list[tuple[tuple[str, ...], str]]:
        run = ("run", "w.json", "--slots", "2", *self.options)
        first = (_told(run, without), self.killed_at)
        if self.killed_at:
            return [first, (_told((*run, "--resume"), without), "")]
        if self.rerun:
            return [first, (EDIT, ""), (_told(run, without), "")]
        return [first]


EDIT = ("sh", "-c", "cp ../other ../w.json . && sync")

SCENARIOS = (
    Scenario("one node"),
    Scenario("two nodes, nothing kept", ("--nodes", "2", "--keep", "final")),
    Scenario("a rerun", rerun=True),
    Scenario("a rerun of all, on two nodes", ("--nodes", "2", "--keep", "all"), rerun=True),
    Scenario("killed, resumed", killed_at="outputs/result"),
    Scenario("killed, resumed, all kept", ("--keep", "all"), killed_at="outputs/left"),
)


def _told(arguments: tuple[str, ...], without: str) -> tuple[str, ...]:
    """The command line, whose words go to a file that is watched."""
    line = f'exec "$@" >> {shlex.quote(str(SAID.absolute()))} 2>&1'
    left_out = ["--without", without] if without else []
    program = [sys.executable, "-m", "power.reported_run", str(REPORTS.absolute()), *left_out, "--"]
    return ("sh", "-c", line, "sh", *program, *arguments)


def set_out() -> None:
    """The files that all begins with; those of a changed workflow are beside the watched place."""
    PLACE.mkdir()
    (PLACE / "in").write_text("first\nsecond\n")
    (PLACE / "other").write_text("one\n")
    write_workflow(a_workflow().build(), PLACE / "w.json")
    Path("other").write_text("two, and longer\n")
    write_workflow(a_workflow("renamed").build(), Path("w.json"))
    SAID.touch()
    REPORTS.touch()
    LOG.touch()


def recording_of(scenario: Scenario, without: str = "") -> Recording:
    """Have it run for real, below the current directory; its files are then in `PLACE`."""
    told = tuple(str(path.absolute()) for path in (SAID, REPORTS, LOG))
    plan = Plan(str(PLACE.absolute()), told, tuple(scenario.commands(without)))
    return record(plan, Path.cwd())
