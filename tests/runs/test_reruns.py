"""A rerun does what it must and nothing else, and says why in one true sentence."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from dataward.cli.main import main
from dataward.runs.input_digests import InputDigests
from runs.real_runs import (
    OUTPUTS,
    RUN_DIRECTORY,
    arguments_for,
    end_of,
    interrupt,
    log_line,
    ran,
    started,
)


def why(task: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["why", task, "--run", str(RUN_DIRECTORY)])
    return capsys.readouterr().out.strip()


def a_count_of_words(texts: int = 20) -> WorkflowBuilder:
    """Each text is split, counted and sorted; a tree of two merges and one makes the result."""
    wf = WorkflowBuilder("words")
    for i in range(texts):
        text = Path(f"text{i}")
        if not text.exists():
            text.write_text(f"some words of text number {i}\n")
        step(wf, f"split{i}", "tr ' ' '\\n' <", f"text{i}", f"words{i}")
        step(wf, f"sort{i}", "sort", f"words{i}", f"sorted{i}")
        step(wf, f"count{i}", "uniq -c", f"sorted{i}", f"counts{i}")
    half = texts // 2
    for part, numbers in (("low", range(half)), ("high", range(half, texts))):
        step(wf, part, "cat", " ".join(f"counts{i}" for i in numbers), part)
    return wf


def step(wf: WorkflowBuilder, task: str, program: str, reads: str, writes: str) -> None:
    line = f"{log_line(task)}; {program} {reads} > {writes}"
    wf.command(line, inputs=reads.split(), outputs=[writes], id=task)


# --- no more than must be ------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_of_62_tasks_one_changed_input_runs_those_below_it(nodes, run):
    wf = a_count_of_words()
    step(wf, "all", "cat", "low high", "result")
    assert run(wf, "--nodes", nodes).counts == (63, 0, 0, 0)
    ran()
    Path("text7").write_text("something else\n")

    end = run(wf, "--nodes", nodes)

    assert set(ran()) == {"split7", "sort7", "count7", "low", "all"}
    assert end.counts == (5, 58, 0, 0)
    assert "else" in (OUTPUTS / "result").read_text()


@pytest.mark.parametrize("keep", ["auto", "final"])
def test_a_task_that_wrote_the_same_again_makes_none_of_its_readers_run(keep, run):
    run(a_count_of_words(4), "--keep", keep)
    ran()
    Path("text1").write_text("words some of text number 1\n")  # another order: sorted the same

    end = run(a_count_of_words(4), "--keep", keep)

    assert ran() == ["sort1", "split1"]
    assert end.counts == (2, 12, 0, 0)


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_what_is_gone_is_made_again_only_if_somebody_reads_it(nodes, run):
    run(a_count_of_words(4), "--keep", "final", "--nodes", nodes)
    ran()
    Path("text1").write_text("something else\n")

    end = run(a_count_of_words(4), "--keep", "final", "--nodes", nodes)

    again = {f"{task}0" for task in ("split", "sort", "count")}  # low reads counts0, which is gone
    assert set(ran()) == {"split1", "sort1", "count1", "low"} | again
    assert end.counts == (7, 7, 0, 0)


def test_intermediates_beyond_the_budget_go(run):
    run(a_count_of_words(4), "--keep", "100B")

    kept = [path for path in (RUN_DIRECTORY / "depot").rglob("*") if path.is_file()]

    assert 0 < sum(path.stat().st_size for path in kept) <= 100


# --- why -----------------------------------------------------------------------------------------


def test_why_names_what_changed_of_each_task(run, capsys):
    run(a_count_of_words(4))
    Path("text1").write_text("something else\n")
    run(a_count_of_words(4))

    assert why("split1", capsys).endswith("because its input 'text1' has changed")
    assert why("low", capsys).endswith("because its input 'counts1' has changed")
    assert "was skipped: its command, inputs and settings are as in" in why("high", capsys)


def test_why_does_not_say_of_tasks_that_ran_before_that_they_had_not(run, capsys):
    run(a_count_of_words(2))
    for i in range(2):
        Path(f"text{i}").write_text("something else\n")
    run(a_count_of_words(2))

    assert why("split0", capsys).endswith("because its input 'text0' has changed")
    assert why("high", capsys).endswith("because its input 'counts1' has changed")


def test_why_says_that_a_task_failed_before(run, capsys):
    wf = WorkflowBuilder("flag")
    wf.command(f"test -e {Path.cwd()}/flag && touch out", outputs=["out"], id="t")
    assert run(wf).code == 1
    Path("flag").touch()
    run(wf)

    assert why("t", capsys).endswith("because it failed in the run before")


def test_why_tells_an_edited_output_from_one_that_is_gone(run, capsys):
    run(a_count_of_words(2), "--keep", "final")
    (OUTPUTS / "low").write_text("edited\n")
    (OUTPUTS / "high").unlink()
    run(a_count_of_words(2), "--keep", "final")

    assert why("low", capsys).endswith("because its output 'low' was changed since")
    assert why("high", capsys).endswith("because its output 'high' is gone")


def test_why_says_that_something_gone_was_needed(run, capsys):
    run(a_count_of_words(2), "--keep", "final")
    (OUTPUTS / "low").unlink()
    run(a_count_of_words(2), "--keep", "final")

    assert why("count0", capsys).endswith("because an output it had written was gone and needed")


# --- what is kept is what was made ---------------------------------------------------------------


def a_slow_end() -> WorkflowBuilder:
    """made -> o; the task that copies it says that it has begun, and waits to be let go."""
    wf = WorkflowBuilder("slow")
    wf.command(f"{log_line('maker')}; echo right > made", outputs=["made"], id="maker")
    here = Path.cwd()
    for pipe in ("began", "go"):
        if not Path(pipe).exists():
            os.mkfifo(pipe)
    line = f"{log_line('reader')}; test -p {here}/go && {{ : > {here}/began; cat {here}/go; }}"
    wf.command(f"{line}; cat made > o", inputs=["made"], outputs=["o"], id="reader")
    return wf


def let_go() -> None:
    """The reader waits no longer, neither in this run nor in a later one."""
    Path("go").unlink()
    Path("go").touch()


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_depot_that_was_spoiled_after_a_kill_is_not_believed(options, run):
    process = started(arguments_for(a_slow_end(), []))
    Path("began").read_bytes()  # waits until the reader writes to it
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for path in (RUN_DIRECTORY / "depot").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_text("wrong, and longer\n")
            path.chmod(0o444)
    let_go()
    ran()

    end = run(a_slow_end(), *options)

    assert end.code == 0
    assert (OUTPUTS / "o").read_text() == "right\n"
    assert "maker" in ran()


def test_a_kept_file_of_another_content_and_the_same_size_is_not_believed(run):
    run(a_count_of_words(2))
    ran()
    for path in (RUN_DIRECTORY / "depot").rglob("*"):
        if path.is_file():
            size = path.stat().st_size
            path.chmod(0o644)
            path.write_text("x" * size)
            path.chmod(0o444)
    Path("text0").write_text("something else\n")

    end = run(a_count_of_words(2))

    assert end.code == 0
    assert "x" not in (OUTPUTS / "low").read_text().replace("text", "")


def test_a_kept_file_is_not_read_again_if_its_size_and_time_are_what_they_were(run):
    wf = WorkflowBuilder("old")
    wf.command("echo right > {outputs}; touch -d @1000 {outputs}", outputs=["a"], id="maker")
    wf.command("cat {inputs} > {outputs}", inputs=["a"], outputs=["o"], id="reader")
    run(wf)
    (kept,) = (RUN_DIRECTORY / "depot").glob("*/*.*")
    kept.chmod(0o644)
    kept.write_text("wrong\n")  # of the same size, which only a reader would notice
    os.utime(kept, (1000, 1000))

    found = InputDigests(RUN_DIRECTORY / "digests").digest_of(kept.absolute())

    assert found == kept.name.partition(".")[0]


def test_an_emptied_journal_is_named_with_a_remedy_that_works(run):
    Path("go").touch()
    run(a_slow_end())
    store = RUN_DIRECTORY / "store"
    store.mkdir()
    (store / "journal").touch()

    stopped = run(a_slow_end(), text=True)
    shutil.rmtree(store)
    end = run(a_slow_end())

    assert stopped.code == 3
    assert f"remove {store.absolute()}" in stopped.err or f"remove {store}" in stopped.err
    assert end.counts == (0, 2, 0, 0)


def test_logs_of_a_skipped_task_are_those_of_the_run_that_made_it(run, capsys):
    wf = WorkflowBuilder("loud")
    wf.command("echo hello; touch o", outputs=["o"], id="t")
    run(wf)
    run(wf)

    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["logs", str(RUN_DIRECTORY), "t"])

    assert "hello" in capsys.readouterr().out


def test_interrupting_and_going_on_runs_each_task_once(run):
    process = started(arguments_for(a_slow_end(), []))
    Path("began").read_bytes()  # waits until the reader writes to it
    os.kill(process.pid, signal.SIGINT)
    Path("go").write_bytes(b"")  # the reader ends
    interrupted = end_of(process)

    end = run(a_slow_end(), *([] if interrupted.code == 0 else ["--resume"]))

    assert end.code == 0
    assert ran() == ["maker", "reader"]


def a_maker_that_never_writes_the_same() -> WorkflowBuilder:
    """x is read by two tasks, and is gone after the run; a later second one waits to be let go."""
    wf = WorkflowBuilder("moody")
    wf.command(f"{log_line('maker')}; cat /proc/sys/kernel/random/uuid > x", outputs=["x"], id="m")
    wf.command("cat x > first", inputs=["x"], outputs=["first"], id="first")
    here = Path.cwd()
    wait = f"test -p {here}/go && {{ : > {here}/began; cat {here}/go; }}"
    wf.command(f"{wait}; cat x > second", inputs=["x", "in"], outputs=["second"], id="second")
    return wf


def test_an_interrupted_run_is_not_complete_if_a_task_has_read_what_is_not_there_any_more(run):
    """The second task needs x again, which is another one now: the first must read it too."""
    Path("in").write_text("1")
    run(a_maker_that_never_writes_the_same(), "--keep", "final")
    Path("in").write_text("2")
    for pipe in ("began", "go"):
        os.mkfifo(pipe)

    wf, options = a_maker_that_never_writes_the_same(), ["--keep", "final"]
    process = started(arguments_for(wf, options, json=False))
    Path("began").read_bytes()  # waits until the second task writes to it
    interrupt(process)
    Path("go").write_bytes(b"")  # the second task ends
    interrupted = end_of(process, is_json=False)
    let_go()
    end = run(wf, *options, "--resume")

    assert interrupted.code == 130
    assert interrupted.out.startswith("moody: interrupted")
    assert "1 unfinished" in interrupted.out
    assert "--resume" in interrupted.out
    assert end.facts["state"] == "complete"
    assert (OUTPUTS / "first").read_text() == (OUTPUTS / "second").read_text()


# --- whose directory it is -----------------------------------------------------------------------


def one_task(name: str, output: str, task: str = "t") -> WorkflowBuilder:
    wf = WorkflowBuilder(name)
    wf.command(f"echo {name} > {output}", outputs=[output], id=task)
    return wf


def test_a_directory_of_another_workflow_is_not_taken_over_unless_that_is_meant(run):
    run(one_task("mine", "m"), name="mine")

    refused = run(one_task("yours", "y"), "--out", "mine.run", name="yours", text=True)
    kept = Path("mine.run/outputs/m").read_text()
    meant = run(one_task("yours", "y"), "--out", "mine.run", "--replace", name="yours")

    assert refused.code == 2
    assert "mine.run holds runs of another workflow ('mine', from mine.json)" in refused.err
    assert "--out" in refused.err
    assert "--replace" in refused.err
    assert kept == "mine\n"
    assert meant.code == 0


def test_a_workflow_whose_file_was_moved_or_edited_keeps_its_directory(run):
    run(one_task("mine", "m"), name="mine")
    moved = run(one_task("mine", "m"), "--out", "mine.run", name="moved")
    edited = run(one_task("another name", "m", task="u"), "--out", "mine.run", name="moved")

    assert moved.counts == (0, 1, 0, 0)
    assert edited.code == 0


def test_an_output_that_is_no_longer_made_goes_and_is_named(run):
    run(one_task("w", "deep/old"))

    end = run(one_task("w", "new"))

    assert sorted(p.name for p in OUTPUTS.iterdir()) == ["new"]
    assert "removed what the workflow no longer makes: deep/old" in end.err


def test_an_output_that_is_no_longer_made_but_was_edited_stays_and_is_named(run):
    run(one_task("w", "old"))
    (OUTPUTS / "old").write_text("by hand")
    (OUTPUTS / "mine").write_text("never made by a task")

    end = run(one_task("w", "new"))

    assert sorted(p.name for p in OUTPUTS.iterdir()) == ["mine", "new", "old"]
    assert "left, since it was edited, what the workflow no longer makes: old" in end.err
    assert "mine" not in end.err
