"""What can go wrong with a task: each has one clear message, and stops only what depends on it."""

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.stores.journal import Journal
from runs.real_runs import OUTPUTS, is_alive


@dataclass(frozen=True)
class Case:
    """A task that fails: a line for the shell or words, the options it needs, what is said."""

    command: str | Sequence[str]
    reason: str
    options: tuple[str, ...] = ()
    memory_bytes: int = 0


CASES = {
    "exits with 3": Case("exit 3", "it ended with exit code 3"),
    "is not on the path": Case(
        ["no-such-program"], "there is no command 'no-such-program' on the PATH"
    ),
    "is not where it was said to be": Case(["./nowhere"], "there is no command './nowhere'"),
    "is not executable": Case(["./plain"], "'./plain' is not executable"),
    "is a directory": Case(["/tmp"], "'/tmp' is not executable"),
    "is a script without #! line": Case(
        ["./bare"], "'./bare' is neither a program nor a script with a #! line"
    ),
    "is a script for an unknown interpreter": Case(
        ["./foreign"], "'./foreign' names an interpreter in its #! line that is not there"
    ),
    "kills itself": Case(
        "kill -9 $$",
        "it was killed by signal 9 (SIGKILL); the system may have been out of memory",
    ),
    "breaks a rule of memory": Case("kill -SEGV $$", "it was killed by signal 11 (SIGSEGV)"),
    "runs too long": Case(
        "sleep 60",
        "it ran longer than its time limit of 2 s",
        ("--time-limit", "2s"),  # the good ones must be over by then, whatever else is going on
    ),
    "runs too long and will not end": Case(
        "trap '' TERM; while :; do sleep 60; done",
        "it ran longer than its time limit of 2 s",
        ("--time-limit", "2s", "--set", "grace_seconds=0.2"),
    ),
    "does not write its output": Case(
        "true", "it ended well but did not write 'bad.out', which it declares as an output"
    ),
    "writes a directory": Case(
        "mkdir bad.out",
        "it wrote a directory where it declares the file 'bad.out'; "
        "a directory is declared as 'bad.out/'",
    ),
    "writes a link to a directory": Case(
        "mkdir d; ln -s d bad.out",
        "it wrote a directory where it declares the file 'bad.out'; "
        "a directory is declared as 'bad.out/'",
    ),
    "writes a link that points outside": Case(
        "ln -s /etc/hostname bad.out",
        "it wrote 'bad.out' as a link to '/etc/hostname', which is not in its own directory",
    ),
    "writes a link that points nowhere": Case(
        "ln -s gone bad.out",
        "it wrote 'bad.out' as a link to 'gone', which is not in its own directory",
    ),
    "writes a link that points to itself": Case(
        "ln -s bad.out bad.out",
        "it wrote 'bad.out' as a link to 'bad.out', which is not in its own directory",
    ),
    "writes a fifo": Case("mkfifo bad.out", "what it wrote as 'bad.out' is not a plain file"),
    "prints too much": Case(
        "yes",
        "it printed more than 976.6 KiB, which would fill the disk",
        ("--set", "log_bytes_max=1000000"),
    ),
    "has too many words": Case(
        ["true", *["x" * 100_000] * 30], "its command is longer than the system allows"
    ),
}


def a_workflow_around(case: Case) -> WorkflowBuilder:
    """A task that fails between good ones: two depend on it, two go another way."""
    for name, line in {"plain": "", "bare": "echo hi", "foreign": "#!/no/such/program"}.items():
        Path(name).write_text(line)
        Path(name).chmod(0o644 if name == "plain" else 0o755)
    wf = WorkflowBuilder("around")
    wf.command("echo seed > {outputs}", outputs=["seed"], id="first")
    scripts = ["plain", "bare", "foreign"]
    wf.command(
        case.command,
        inputs=["seed", *scripts],
        outputs=["bad.out"],
        id="bad",
        memory_bytes=case.memory_bytes,
    )
    wf.command("cat {inputs} > {outputs}", inputs=["bad.out"], outputs=["child.out"], id="child")
    wf.command("cat {inputs} > {outputs}", inputs=["child.out"], outputs=["late.out"], id="late")
    wf.command("cat {inputs} > {outputs}", inputs=["seed"], outputs=["good.out"], id="good")
    wf.command("cat {inputs} > {outputs}", inputs=["good.out"], outputs=["fine.out"], id="fine")
    return wf


@pytest.mark.parametrize("name", CASES)
def test_a_command_that_fails_stops_only_what_depends_on_it(name, run):
    case = CASES[name]

    end = run(a_workflow_around(case), "--retries", "1", *case.options)

    assert end.code == 1
    assert end.facts["state"] == "failed"
    assert end.reasons == {"bad": case.reason}
    assert end.facts["failures"][0]["attempts"] == 2
    assert end.facts["failed_attempts"] == 2
    assert end.counts == (3, 0, 1, 2)
    assert {path.name: path.read_text() for path in OUTPUTS.iterdir()} == {"fine.out": "seed\n"}


def test_the_summary_for_people_names_what_failed_itself_and_counts_the_rest(run):
    end = run(a_workflow_around(Case("echo oh no >&2; exit 3", "")), "--retries", "1", text=True)

    assert end.code == 1
    assert "3 complete, 1 failed, 2 therefore not run, of 6" in end.out
    assert "1 task failed\n  bad: it ended with exit code 3 (2 attempts)\n    | oh no\n" in end.out
    assert "and 2 tasks that depended on it did not run" in end.out
    assert "child" not in end.out
    assert "late" not in end.out


@pytest.mark.parametrize(
    ("is_measured", "allowed_mib"),
    [(False, 50.0), (True, 50.0 * 1.5 + 64)],
    ids=["its author's limit", "what a run has measured"],
)
def test_a_task_that_eats_memory_is_ended_and_both_numbers_are_told(run, is_measured, allowed_mib):
    eater = "x = b'1' * 600_000_000\nwhile True: pass"
    wf = a_workflow_around(Case(["python3", "-I", "-S", "-c", eater], "", memory_bytes=50 << 20))
    if is_measured:
        wf.mark_measured()

    end = run(wf)

    assert end.code == 1
    used, allowed = re.fullmatch(
        r"it used ([\d.]+) MiB of memory, and may use ([\d.]+) MiB", end.reasons["bad"]
    ).groups()
    assert float(used) > float(allowed) == allowed_mib
    assert end.counts == (3, 0, 1, 2)


def test_memory_used_by_a_child_of_the_command_counts_too(run):
    eater = "x = b'1' * 600_000_000\nwhile True: pass"
    command = f'python3 -I -S -c "{eater}"; true'

    end = run(a_workflow_around(Case(command, "", memory_bytes=50_000_000)))

    assert end.reasons["bad"].startswith("it used ")


def test_a_task_has_the_attempts_it_asks_for_itself(run):
    wf = WorkflowBuilder("own")
    wf.command("exit 1", id="often", retries=3)
    wf.command("exit 1", id="never", retries=0)
    wf.command("exit 1", id="as told")

    end = run(wf, "--retries", "1")

    attempts = {failure["task"]: failure["attempts"] for failure in end.facts["failures"]}
    assert attempts == {"often": 4, "never": 1, "as told": 2}


def test_a_task_that_succeeds_when_tried_again_is_no_failure(run, tmp_path):
    wf = WorkflowBuilder("shy")
    flag = tmp_path / "flag"
    wf.command(f"[ -e {flag} ] || {{ touch {flag}; exit 1; }}; echo x > o", outputs=["o"], id="shy")

    end = run(wf, "--retries", "1")

    assert end.code == 0
    assert (end.facts["attempts"], end.facts["failed_attempts"]) == (2, 1)
    assert (OUTPUTS / "o").read_text() == "x\n"


# --- what a task leaves running ------------------------------------------------------------------


@pytest.mark.parametrize(
    "background",
    [
        "sleep 1000 & echo $! > PIDS",
        "setsid sleep 1000 & echo $! > PIDS",
        "(setsid sh -c 'sleep 1000 & echo $! $$ > PIDS; sleep 1000' &)",
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > PIDS; sleep 1000; sleep 1000' &",
    ],
)
@pytest.mark.parametrize("ending", ["exit 0", "exit 1", "sleep 1000"])
def test_nothing_a_task_started_outlives_it(background, ending, run, tmp_path):
    pids = tmp_path / "pids"
    line = background.replace("PIDS", str(pids))
    wf = WorkflowBuilder("background")
    wf.command(f"{line}\nuntil [ -s {pids} ]; do :; done; {ending}", id="starter")

    end = run(wf, "--time-limit", "0.3s", "--set", "grace_seconds=0.1")

    started = [int(word) for word in pids.read_text().split()]
    assert started
    assert not [pid for pid in started if is_alive(pid)]
    assert end.code == (0 if ending == "exit 0" else 1)


def test_a_task_cannot_speak_to_the_node_by_its_socket(run):
    wf = WorkflowBuilder("descriptors")
    wf.command(["sh", "-c", "ls -l /proc/self/fd > seen"], outputs=["seen"], id="looker")

    run(wf)

    assert "socket" not in (OUTPUTS / "seen").read_text()


def test_a_task_that_kills_its_runner_is_told_so_and_harms_nobody_else(run, tmp_path):
    pids = tmp_path / "pids"
    case = Case(f"echo $$ >> {pids}; kill -9 $PPID; sleep 1000", "")

    end = run(a_workflow_around(case))

    assert end.reasons == {"bad": "its process was killed by signal 9 (SIGKILL)"}
    assert end.counts == (3, 0, 1, 2)
    assert not [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)]


def test_a_task_that_removes_its_own_directory_harms_nobody_else(run):
    wf = WorkflowBuilder("bare ground")
    wf.command('rm -rf "$PWD"', id="a remover")
    for i in range(4):
        wf.command("echo $0 > {outputs}", outputs=[f"o{i}"], after=["a remover"], id=f"t{i}")

    end = run(wf, "--slots", "1")

    assert end.code == 0, end.facts["failures"]
    assert len(list(OUTPUTS.iterdir())) == 4


def test_a_setting_that_would_change_nothing_is_refused(run):
    wf = WorkflowBuilder("w")
    wf.command("true", id="t")

    said = run(wf, "--set", "lease_seconds=5", text=True)

    assert said.code == 2
    assert "lease_seconds would change nothing here: nodes of one process" in said.err


def test_a_setting_of_this_run_goes_before_what_fits_one_process(run):
    wf = WorkflowBuilder("w")
    wf.command("true", id="t")

    assert run(wf, "--set", "lead_seconds=0", "--set", "outcome_seconds=0").code == 0


def test_a_store_that_stops_before_all_is_submitted_ends_the_run(run, monkeypatch):
    def append(journal: Journal, payload: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    wf = WorkflowBuilder("much to submit")
    for i in range(4000):
        wf.command(["true"], id=f"t{i}")
    monkeypatch.setattr(Journal, "append", append)

    end = run(wf)

    assert end.code == 4
    assert "No space left on device" in end.err
