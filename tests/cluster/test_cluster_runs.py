"""Workflows on a cluster of real processes: nodes, a real store, files over TLS."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.laptops import LaptopCluster, laptop_cluster
from cluster.plainly import plain_results, written
from dataward import write_workflow
from dataward.cluster.visitor import ClusterError
from dataward.generate import generate, make_runnable
from dataward.model.builder import WorkflowBuilder
from dataward.model.states import RunState
from dataward.model.workflow import Workflow
from dataward.strategies.registry import STRATEGIES

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
TASKS = 24


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path_factory.mktemp("cluster") / "lab", nodes=4) as up:
        yield up


def a_small(shape: str, seed: int = 3) -> Workflow:
    return make_runnable(generate(shape, TASKS, seed=seed), time_scale=0, data_scale=1e-5)


@pytest.mark.parametrize("shape", APPLICATIONS)
def test_applications_write_what_a_plain_execution_writes(
    shape: str, cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = a_small(shape)

    submitted = cluster.submit(written(workflow, tmp_path), fresh=True)
    ended = cluster.wait(submitted.run.name)

    assert ended.run.state is RunState.COMPLETE
    assert ended.counts == {"complete": len(workflow)}
    assert cluster.fetch(submitted.run.name, tmp_path / "got") == plain_results(
        workflow, tmp_path / "plain"
    )


@pytest.fixture(scope="module")
def results_of_montage(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return plain_results(a_small("montage", seed=5), tmp_path_factory.mktemp("plain") / "all")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_runs_a_workflow(
    strategy: str, cluster: LaptopCluster, tmp_path: Path, results_of_montage: dict[str, bytes]
) -> None:
    workflow = a_small("montage", seed=5)

    submitted = cluster.submit(written(workflow, tmp_path), fresh=True, strategy=strategy)
    ended = cluster.wait(submitted.run.name)

    assert ended.counts == {"complete": len(workflow)}
    assert cluster.fetch(submitted.run.name, tmp_path / "got") == results_of_montage


def test_what_one_run_made_no_other_makes_again(cluster: LaptopCluster, tmp_path: Path) -> None:
    workflow = make_runnable(generate("inspiral", 30, seed=11), time_scale=0, data_scale=2e-5)
    path = written(workflow, tmp_path)
    first = cluster.submit(path)
    cluster.wait(first.run.name)

    second = cluster.submit(path)
    ended = cluster.wait(second.run.name)

    assert first.due == len(workflow)
    assert (second.due, second.skipped) == (0, len(workflow))
    assert second.uploaded_files == 0
    assert ended.run.state is RunState.COMPLETE
    assert cluster.fetch(second.run.name, tmp_path / "b") == cluster.fetch(
        first.run.name, tmp_path / "a"
    )


def test_only_what_a_change_concerns_runs_again(cluster: LaptopCluster, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    wf = WorkflowBuilder("change")
    for name in ("one", "two"):
        wf.command(f"cat {name} > {name}.out", id=name, inputs=[name], outputs=[f"{name}.out"])
    wf.command("cat {inputs} > all", id="all", inputs=["one.out", "two.out"], outputs=["all"])
    write_workflow(wf.build(), tmp_path / "w.json")
    cluster.wait(cluster.submit(tmp_path / "w.json").run.name)

    (tmp_path / "two").write_text("3")
    again = cluster.submit(tmp_path / "w.json")
    cluster.wait(again.run.name)

    assert (again.due, again.skipped) == (2, 1)
    assert cluster.fetch(again.run.name, tmp_path / "got") == {"all": b"13"}


def test_a_task_that_fails_fails_the_run_and_says_why(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    wf = WorkflowBuilder("fails")
    wf.command("echo no room >&2; exit 3", id="bad", outputs=["a"])
    wf.command("cat a > b", id="after", inputs=["a"], outputs=["b"])
    wf.command("echo fine > c", id="good", outputs=["c"])
    write_workflow(wf.build(), tmp_path / "w.json")

    submitted = cluster.submit(tmp_path / "w.json", fresh=True)
    ended = cluster.wait(submitted.run.name)

    assert ended.run.state is RunState.FAILED
    assert ended.counts == {"complete": 1, "failed": 2}
    assert cluster.fetch(submitted.run.name, tmp_path / "got") == {"c": b"fine\n"}


def test_a_run_is_cancelled(cluster: LaptopCluster, tmp_path: Path) -> None:
    wf = WorkflowBuilder("long")
    for number in range(8):
        wf.command("sleep 600", id=f"t{number}")
    write_workflow(wf.build(), tmp_path / "w.json")
    submitted = cluster.submit(tmp_path / "w.json", fresh=True)

    cluster.ask(lambda visitor: visitor.cancel(submitted.run.name))

    assert cluster.wait(submitted.run.name).run.state is RunState.CANCELLED


def test_nothing_is_left_of_a_run_that_is_cleaned(cluster: LaptopCluster, tmp_path: Path) -> None:
    submitted = cluster.submit(written(a_small("sipht", seed=9), tmp_path), fresh=True)
    name = submitted.run.name
    cluster.wait(name)

    cluster.ask(lambda visitor: visitor.clean(name))

    assert not list((cluster.path / "depots").glob(f"*/runs/{name}"))
    with pytest.raises(ClusterError, match="no run is called"):
        cluster.ask(lambda visitor: visitor.run(name))


def test_results_that_an_earlier_run_made_stay_when_that_is_cleaned(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = written(a_small("sipht", seed=10), tmp_path)
    first = cluster.submit(workflow, fresh=True).run.name
    cluster.wait(first)
    made = cluster.fetch(first, tmp_path / "first")
    second = cluster.submit(workflow)
    cluster.wait(second.run.name)

    cluster.ask(lambda visitor: visitor.clean(first))

    assert second.due == 0
    assert cluster.fetch(second.run.name, tmp_path / "second") == made
    cluster.ask(lambda visitor: visitor.clean(second.run.name))
    assert not list((cluster.path / "depots").glob(f"*/runs/{second.run.name}"))


def test_a_small_run_is_not_starved_by_a_huge_one(cluster: LaptopCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    huge = WorkflowBuilder("huge")
    for number in range(400):
        huge.command(f"test -e {gate} || sleep 0.2", id=f"t{number}")
    write_workflow(huge.build(), tmp_path / "huge.json")
    small = WorkflowBuilder("small")
    for number in range(4):
        small.command("echo {outputs} > {outputs}", id=f"s{number}", outputs=[f"s{number}"])
    write_workflow(small.build(), tmp_path / "small.json")
    first = cluster.submit(tmp_path / "huge.json", fresh=True).run.name

    second = cluster.submit(tmp_path / "small.json", fresh=True).run.name
    cluster.wait(second)
    meanwhile = cluster.ask(lambda visitor: visitor.run(first))
    gate.touch()

    assert meanwhile.run.state is RunState.RUNNING
    assert cluster.wait(first).run.state is RunState.COMPLETE


def test_programs_and_directories_travel(cluster: LaptopCluster, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\nsort "$@"\n')
    tool.chmod(0o755)
    (tmp_path / "words").mkdir()
    for name, text in {"one": "b\na\n", "two": "d\nc\n"}.items():
        (tmp_path / "words" / name).write_text(text)
    wf = WorkflowBuilder("program")
    for name in ("one", "two"):
        wf.command(
            f"./tool words/{name} > {name}.out && mkdir {name}.dir && cp {name}.out {name}.dir/",
            id=name,
            inputs=["tool", "words/"],
            outputs=[f"{name}.out", f"{name}.dir/"],
        )
    wf.command(
        "cat one.dir/one.out two.dir/two.out > all",
        id="all",
        inputs=["one.dir/", "two.dir/"],
        outputs=["all"],
    )
    write_workflow(wf.build(), tmp_path / "w.json")

    submitted = cluster.submit(tmp_path / "w.json", fresh=True)
    ended = cluster.wait(submitted.run.name)

    assert ended.run.state is RunState.COMPLETE
    assert cluster.fetch(submitted.run.name, tmp_path / "got")["all"] == b"a\nb\nc\nd\n"


def test_programs_that_tasks_make_are_fetched_as_programs(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    wf = WorkflowBuilder("tools")
    wf.command(
        "printf '#!/bin/sh\\necho made\\n' > tool; chmod +x tool; echo no > plain",
        id="make",
        outputs=["tool", "plain"],
    )
    write_workflow(wf.build(), tmp_path / "w.json")
    submitted = cluster.submit(tmp_path / "w.json", fresh=True, copies=2)
    cluster.wait(submitted.run.name)

    cluster.fetch(submitted.run.name, tmp_path / "got")

    assert subprocess.run([tmp_path / "got" / "tool"], capture_output=True).stdout == b"made\n"
    assert not os.access(tmp_path / "got" / "plain", os.X_OK)


def test_inputs_are_read_where_they_are(cluster: LaptopCluster, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").write_text("from a shared disk")
    wf = WorkflowBuilder("addressed")
    wf.file("data", path=(tmp_path / "elsewhere" / "data").as_uri())
    wf.command("cat data > out", id="copy", inputs=["data"], outputs=["out"])
    write_workflow(wf.build(), tmp_path / "w.json")

    submitted = cluster.submit(tmp_path / "w.json", fresh=True)
    ended = cluster.wait(submitted.run.name)

    assert submitted.uploaded_files == 0
    assert ended.run.state is RunState.COMPLETE
    assert cluster.fetch(submitted.run.name, tmp_path / "got") == {"out": b"from a shared disk"}
