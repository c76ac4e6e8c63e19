"""kill -9 at any instant loses nothing that was committed, and leaves nothing running.

``DATAWARD_KILLS=100 pytest tests/runs/test_kill_campaign.py`` kills more often.
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from dataward import WorkflowBuilder
from dataward.runs.run_directory import RunDirectory
from dataward.runs.workflow_run import gather_outcomes
from file_changes import wait_for_files
from runs.real_runs import (
    OUTPUTS,
    RUN_DIRECTORY,
    arguments_for,
    end_of,
    hashes,
    outlives_many_looks,
    processes_in,
    started,
)

KILLS = int(os.environ.get("DATAWARD_KILLS", "10"))
TASKS = 40
LOG = Path("ran.log")
JOURNAL = RUN_DIRECTORY / "store" / "journal"


def a_workflow(random: Random) -> WorkflowBuilder:
    """Layers of small tasks, each of which notes that it has begun."""
    wf = WorkflowBuilder("campaign")
    for i in range(TASKS):
        parents = sorted(random.sample(range(max(0, i - 8), i), min(i, random.randint(0, 3))))
        reads = [f"f{parent}" for parent in parents]
        # A few outputs are large enough to go another way, and a few are all alike.
        size = 1_500_000 if i % 13 == 5 else i % 7 * 1000
        line = f"echo t{i} >> {LOG.absolute()}; cat {{inputs}} /dev/null > all; "
        line += f"(cksum < all; yes t{i % 5} | head -c {size}) > {{outputs}}"
        wf.command(line, inputs=reads, outputs=[f"f{i}"], id=f"t{i}")
    return wf


def begun() -> list[str]:
    return LOG.read_text().split() if LOG.exists() else []


def is_at(bytes_written: int, before: int) -> bool:
    """Whether the journal has grown so far; ``before`` is the one of the session before."""
    try:
        status = JOURNAL.stat()
    except FileNotFoundError:
        return False
    return status.st_ino != before and status.st_size >= bytes_written


def inode_of_journal() -> int:
    return JOURNAL.stat().st_ino if JOURNAL.exists() else 0


def journal_bytes_of_a_whole_run(arguments: list[str]) -> int:
    process, sizes = started(arguments), [0]

    def look() -> None:
        with suppress(FileNotFoundError):
            sizes.append(JOURNAL.stat().st_size)

    places = (Path(), RUN_DIRECTORY, JOURNAL.parent)
    wait_for_files(look, "the run ends", *places, process=process)
    assert end_of(process).code == 0
    return max(sizes)


def killed_at(arguments: list[str], bytes_written: int) -> bool:
    """Whether it was killed before it had ended by itself."""
    before = inode_of_journal()
    process = started(arguments)
    places = (Path(), RUN_DIRECTORY, JOURNAL.parent)
    wait_for_files(
        lambda: is_at(bytes_written, before), "the journal grows", *places, process=process
    )
    process.kill()
    end_of(process, is_json=False)
    return process.returncode == -9


def survivors() -> list[int]:
    """Who is left of a killed run, when all have had the time to notice and end."""
    return [pid for pid in processes_in(RUN_DIRECTORY) if outlives_many_looks(pid)]


def committed(to: Path) -> set[str]:
    """The tasks whose outcomes are on the disk; found in a copy, for finding out changes it."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(RUN_DIRECTORY, to, symlinks=True)
    return set(gather_outcomes(RunDirectory(to)))


@dataclass
class Campaign:
    """Runs that are killed and go on, until one comes to its end; then it all begins anew."""

    random: Random
    whole_bytes: int  # of the journal of a run that nobody kills
    copy: Path
    kills: int = 0
    runs: int = 0

    def run(self, *keep: str) -> None:
        shutil.rmtree(RUN_DIRECTORY)
        LOG.unlink(missing_ok=True)
        self.runs += 1
        done: set[str] = set()
        is_killed = True
        while is_killed:
            seen = len(begun())
            has_begun = (RUN_DIRECTORY / "1" / "run.json").exists()
            resume = ["--resume"] if has_begun else []
            options = [*keep, *resume, "--nodes", self.random.choice("12")]
            is_killed = self._session(arguments_for(Path("w.json"), options), done)
            assert survivors() == []
            assert not done.intersection(begun()[seen:]), "run again, though it was committed"
            if is_killed and RUN_DIRECTORY.exists():
                before, done = done, committed(self.copy)
                assert before <= done <= set(begun())

    def _session(self, arguments: list[str], done: set[str]) -> bool:
        """Whether it was killed: when enough were, it may come to its end."""
        if self.kills == KILLS:
            end = end_of(started(arguments))
            assert end.code == 0, end.err
            return False
        left = self.whole_bytes * (1 - len(done) / TASKS)
        is_killed = killed_at(arguments, int(self.random.random() * left * 1.1))
        self.kills += is_killed
        return is_killed


def test_a_killed_run_goes_on_where_it_was_killed(tmp_path):
    random = Random(11)
    wf = a_workflow(random)
    read = wf.build().consumers.degrees()
    size = journal_bytes_of_a_whole_run(arguments_for(wf, ["--keep", "all"]))
    undisturbed = hashes(OUTPUTS)
    final = {f"f{i}" for i in range(TASKS) if not read[wf.build().file_ids.index(f"f{i}")]}
    campaign = Campaign(random, size, tmp_path / "copy")

    while campaign.kills < KILLS:
        keep = random.choice(["final", "all"])
        campaign.run("--keep", keep)

        kept = final if keep == "final" else undisturbed.keys()
        assert hashes(OUTPUTS) == {name: undisturbed[name] for name in kept}
        assert set(begun()) == {f"t{i}" for i in range(TASKS)}
    print(f"{campaign.kills} kills in {campaign.runs} runs")


def test_tasks_that_would_run_on_do_not_outlive_a_killed_run():
    os.mkfifo("pids")
    wf = WorkflowBuilder("lasting")
    line = f"setsid sleep 1000 & echo $$ $! > {Path.cwd()}/pids; trap '' TERM; sleep 1000; sleep 9"
    wf.command(line, id="lasting")
    process = started(arguments_for(wf, []))
    pids = [int(word) for word in Path("pids").read_text().split()]

    process.kill()
    end_of(process, is_json=False)

    assert len(pids) == 2
    assert not any(map(outlives_many_looks, pids))
    assert survivors() == []
