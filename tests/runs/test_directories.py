"""Directories as outputs and inputs: a name that ends in a slash stands for the whole of one."""

import os
import stat
from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS, RUN_DIRECTORY, arguments_for, started

MAKE = """mkdir -p made/deep/empty && echo a > made/a && echo b > made/deep/b &&
printf '#!/bin/sh\\necho ran\\n' > made/deep/run && chmod +x made/deep/run"""
LIST = "(cd made && find . | LC_ALL=C sort && cat a deep/b && ./deep/run) > {outputs}"
LISTED = ".\n./a\n./deep\n./deep/b\n./deep/empty\n./deep/run\na\nb\nran\n"


def a_workflow(make: str = MAKE) -> WorkflowBuilder:
    wf = WorkflowBuilder("directories")
    wf.command(make, outputs=["made/"], id="make")
    wf.command(LIST, inputs=["made/"], outputs=["list"], id="list")
    return wf


@pytest.mark.parametrize("nodes", ["1", "3"])
def test_a_directory_goes_from_task_to_task_whole(run, nodes):
    wf = a_workflow()
    for number in range(6):
        wf.command(LIST, inputs=["made/"], outputs=[f"list{number}"], id=f"list{number}")

    end = run(wf, "--nodes", nodes, "--slots", "1")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "list").read_text() == LISTED
    assert all((OUTPUTS / f"list{number}").read_text() == LISTED for number in range(6))
    assert not (OUTPUTS / "made").exists()


def test_a_directory_that_no_task_reads_is_published_for_the_user_to_use(run):
    wf = WorkflowBuilder("published")
    wf.command(MAKE, outputs=["made/"], id="make")

    run(wf)

    made = OUTPUTS / "made"
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*")) == [
        "a", "deep", "deep/b", "deep/empty", "deep/run",
    ]  # fmt: skip
    assert (made / "a").read_text() == "a\n"
    assert os.access(made / "deep/run", os.X_OK)
    assert not os.access(made / "a", os.X_OK)
    assert (made / "a").stat().st_mode & stat.S_IWUSR


def test_a_second_run_skips_what_made_a_directory_that_is_still_the_same(run):
    run(a_workflow(), "--keep", "all")

    end = run(a_workflow(), "--keep", "all")

    assert end.counts == (0, 2, 0, 0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: (made / "a").write_text("edited"),
        lambda made: (made / "deep/b").unlink(),
        lambda made: (made / "deep/new").write_text(""),
        lambda made: (made / "deep/run").chmod(0o644),
        lambda made: (made / "deep/empty").rmdir(),
        lambda made: (made / "a").rename(made / "c"),
        lambda made: os.mkfifo(made / "pipe"),
    ],
)
def test_a_published_directory_that_somebody_changed_is_made_again(run, spoil):
    run(a_workflow(), "--keep", "all")
    spoil(OUTPUTS / "made")

    end = run(a_workflow(), "--keep", "all")

    assert end.counts == (1, 1, 0, 0)
    assert (OUTPUTS / "made/a").read_text() == "a\n"
    assert not (OUTPUTS / "made/pipe").exists()


def test_a_reader_runs_again_from_the_published_directory(run):
    run(a_workflow(), "--keep", "all")
    wf = a_workflow()
    wf.command("ls {inputs} > {outputs}", inputs=["made/"], outputs=["names"], id="more")

    end = run(wf, "--keep", "all")

    assert end.counts == (1, 2, 0, 0)
    assert (OUTPUTS / "names").read_text() == "a\ndeep\n"


def test_a_directory_of_the_users_is_an_input_and_its_content_counts(run):
    data = Path("data")
    (data / "deep").mkdir(parents=True)
    (data / "deep/a").write_text("1")
    (data / "link").symlink_to("deep/a")
    wf = WorkflowBuilder("input")
    wf.command("cat {inputs}deep/a {inputs}link > {outputs}", inputs=["data/"], outputs=["o"])

    first = run(wf)
    os.utime(data / "deep/a")
    second = run(wf)
    (data / "deep/a").write_text("2")
    third = run(wf)

    assert first.code == 0, first.reasons
    assert [end.counts[:2] for end in (first, second, third)] == [(1, 0), (0, 1), (1, 0)]
    assert (OUTPUTS / "o").read_text() == "22"


def test_a_task_that_writes_into_a_directory_of_the_users_fails(run):
    Path("data").mkdir()
    Path("data/a").write_text("1")
    wf = WorkflowBuilder("writes")
    wf.command("echo 2 > data/b", inputs=["data/"], id="t")

    end = run(wf)

    assert "its input 'data/'" in end.reasons["t"]
    assert "was changed" in end.reasons["t"]


def test_a_task_may_write_into_its_own_copy_of_a_directory_that_a_task_made(run):
    wf = a_workflow()
    wf.command("echo x > made/a; cat made/a > {outputs}", inputs=["made/"], outputs=["x"], id="x")

    end = run(wf, "--slots", "1")

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "list").read_text() == LISTED


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ("true", "did not write 'made/'"),
        ("ln -s /etc made", "'made/' as a link to '/etc'"),
        ("touch made", "wrote a file where it declares the directory 'made/'"),
        ("mkdir made; ln -s /etc/passwd made/p", "'made/p'"),
        ("mkdir made; ln -s /etc made/p", "'made/p'"),
        ("mkdir made; ln -s nowhere made/p", "'made/p'"),
        ("mkdir made; mkfifo made/p", "'made/p'"),
    ],
)
def test_a_directory_that_is_not_as_declared_fails_its_task(run, make, said):
    wf = WorkflowBuilder("bad")
    wf.command(f"echo x > o; {make}", outputs=["o", "made/"], id="t")

    end = run(wf)

    assert said in end.reasons["t"]
    assert not OUTPUTS.exists()


def test_links_to_files_in_a_tasks_own_directory_are_as_good_as_the_files(run):
    wf = WorkflowBuilder("links")
    make = "mkdir made; echo x > other; ln -s ../other made/a; ln -s a made/b; ln other made/c"
    wf.command(make, outputs=["made/"], id="t")

    end = run(wf)

    assert end.code == 0, end.reasons
    assert [(OUTPUTS / "made" / name).read_text() for name in "abc"] == ["x\n"] * 3
    assert not (OUTPUTS / "made/a").is_symlink()


def test_a_directory_is_taken_whatever_its_modes(run):
    wf = WorkflowBuilder("closed")
    make = "mkdir -p made/in; echo x > made/in/a; chmod 0 made/in/a made/in made"
    wf.command(make, outputs=["made/"], id="t")

    end = run(wf)

    assert end.code == 0, end.reasons
    assert (OUTPUTS / "made/in/a").read_text() == "x\n"


def test_a_failed_run_keeps_directories_for_the_next(run):
    wf = a_workflow()
    wf.command("test -e {inputs}now", inputs=["made/"], id="fails")
    run(wf)
    wf = a_workflow()
    wf.command("test -e {inputs}a", inputs=["made/"], id="fails")

    end = run(wf)

    assert end.counts == (1, 2, 0, 0)


@pytest.mark.parametrize("names", [("a/", "a"), ("a/", "a/b"), ("a/b/", "a")])
def test_a_directory_is_never_also_a_file_or_the_place_of_another(run, names):
    wf = WorkflowBuilder("twice")
    for number, name in enumerate(names):
        wf.command("true", outputs=[name], id=f"t{number}")

    end = run(wf, text=True)

    assert end.code == 3
    assert repr(names[0]) in end.err or repr(names[1]) in end.err
    assert not RUN_DIRECTORY.exists()


def test_a_directory_named_as_a_file_is_refused_with_the_remedy(run):
    Path("data").mkdir()
    wf = WorkflowBuilder("slash")
    wf.command("ls data", inputs=["data"])

    end = run(wf, text=True)

    assert end.code != 0
    assert "'data/'" in end.err


def test_a_directory_of_the_users_with_a_link_to_a_directory_is_refused(run):
    Path("data").mkdir()
    Path("data/up").symlink_to("..")
    wf = WorkflowBuilder("link")
    wf.command("ls data", inputs=["data/"])

    end = run(wf, text=True)

    assert end.code != 0
    assert "data/up" in end.err


def test_a_killed_run_goes_on_with_the_directories_and_streams_it_had(run):
    os.mkfifo("runs")
    here = Path().absolute()
    wf = WorkflowBuilder("killed")
    make = f"{MAKE}; cat; echo made >> {here}/log"
    wf.command(make, outputs=["made/"], stdin="in", stdout="said", id="make")
    held_up = f"if [ -p {here}/runs ]; then echo x > {here}/runs; exec sleep 60; fi"
    wf.command(
        f'{held_up}; cat said made/a; echo "$A"', inputs=["made/", "said"], stdout="o",
        env={"A": "1"}, id="read",
    )  # fmt: skip
    Path("in").write_text("given\n")
    process = started(arguments_for(wf, [], json=False))
    Path("runs").read_text()  # opened only when the second task runs

    process.kill()
    process.communicate()
    Path("runs").unlink()
    end = run(wf, "--resume")

    assert end.code == 0, end.reasons
    assert Path("log").read_text() == "made\n"
    assert (OUTPUTS / "o").read_text() == "given\na\n1\n"


def test_a_published_directory_that_is_no_longer_made_goes_unless_it_was_changed(run):
    both = WorkflowBuilder("stale")
    both.command(MAKE, outputs=["made/"], id="make")
    both.command("mkdir other; echo x > other/x", outputs=["other/"], id="other")
    both.command("echo x > stays", outputs=["stays"], id="stays")
    one = WorkflowBuilder("stale")
    one.command("echo x > stays", outputs=["stays"], id="stays")
    run(both)
    (OUTPUTS / "other/mine").write_text("mine")

    end = run(one)

    assert end.code == 0
    assert not (OUTPUTS / "made").exists()
    assert (OUTPUTS / "other/mine").read_text() == "mine"
