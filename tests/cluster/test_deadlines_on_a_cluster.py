"""Runs with deadlines on clusters of real processes: promised and kept, refused, broken."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import write_workflow
from dataward.cli.watching import facts_as_json, sentence_about
from dataward.cluster.description import PromisedTask, RunPromises, unpacked
from dataward.cluster.event_tail import events_in
from dataward.cluster.exchange import PromiseAsked, RunFactsNow
from dataward.cluster.results import part_of
from dataward.cluster.tree_mail import TreeMail, encoded_tree_mail
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import DeadlineRefusedError, SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.deadline import WantedDeadline
from dataward.model.events import FinishPromised
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun
from dataward.model.states import RunState
from file_changes import wait_for_files, wait_for_path


def within(seconds: float, *, best_effort: bool = False) -> WantedDeadline:
    now = datetime.now().astimezone()
    return WantedDeadline(now, now + timedelta(seconds=seconds), best_effort)


def some_tasks(
    path: Path, count: int, seconds: float, command: str = "true", name: str = "some"
) -> Path:
    """A workflow of equal tasks, said to take so long, and one that waits for all of them."""
    wf = WorkflowBuilder(name)
    files = [f"{name}-{number}" for number in range(count)]
    for number, file in enumerate(files):
        line = f"{command}; echo {file} > {file}"
        wf.command(line, id=f"t{number}", outputs=[file], runtime_seconds=seconds)
    wf.command("cat {inputs} > all", id="all", inputs=files, outputs=["all"], runtime_seconds=0.1)
    write_workflow(wf.build(), path)
    return path


def places_of(cluster: LaptopCluster, run: str) -> list[Path]:
    """The directories in which hosts write the events of a run, and those above."""
    depots = [cluster.path / "depots" / node for node in cluster.nodes]
    runs = [depot / "runs" for depot in depots]
    return [*depots, *runs, *(path / run for path in runs)]


def promises_of(cluster: LaptopCluster, run: ClusterRun) -> Sequence[PromisedTask]:
    assert run.promise is not None
    part = run.promise.part
    content = cluster.ask(lambda visitor: part_of(visitor, run, part))
    return unpacked(content, RunPromises).tasks


def asked(cluster: LaptopCluster, run: str) -> RunFactsNow:
    return cluster.ask(lambda visitor: visitor.run(run))


# --- two hosts -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path_factory.mktemp("deadlines") / "lab", nodes=2) as up:
        yield up


def test_a_deadline_that_fits_is_promised_and_kept(cluster: LaptopCluster, tmp_path: Path) -> None:
    workflow = some_tasks(tmp_path / "w.json", 3, 1.0)

    submitted = cluster.submit(workflow, deadline=within(600.0), fresh=True)
    ended = cluster.wait(submitted.run.name)

    promise = submitted.run.promise
    assert promise is not None
    assert 0 < promise.finish <= promise.deadline
    assert 0.5 < promise.sure < 1
    assert submitted.run.strategy == "peercomp"
    assert ended.run.state is RunState.COMPLETE
    assert "in time" in sentence_about(ended)
    told = facts_as_json(ended)["promise"]
    assert (told["kept"], told["late_seconds"], told["broken"]) == (True, 0.0, "")


def test_promises_rest_on_what_earlier_runs_have_measured(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = some_tasks(tmp_path / "w.json", 2, 300.0, name="measured")  # as somebody said

    first = cluster.submit(workflow, deadline=within(7200.0), fresh=True)
    cluster.wait(first.run.name)
    second = cluster.submit(workflow, deadline=within(60.0), fresh=True)
    cluster.wait(second.run.name)

    assert first.answer is not None
    assert second.answer is not None
    assert (first.answer.declared, second.answer.declared) == (3, 0)


def test_a_deadline_that_does_not_fit_is_refused_with_an_honest_earliest_finish(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = some_tasks(tmp_path / "w.json", 4, 10.0, name="new")  # never measured
    before = len(cluster.ask(lambda visitor: visitor.cluster()).runs)

    with pytest.raises(
        DeadlineRefusedError,
        match=r"shorter than the critical path.* the earliest that can be promised is",
    ) as refused:
        cluster.submit(workflow, deadline=within(5.0), fresh=True)
    after = len(cluster.ask(lambda visitor: visitor.cluster()).runs)
    earliest = refused.value.earliest_seconds
    submitted = cluster.submit(workflow, deadline=within(earliest + 1.0), fresh=True)
    cluster.wait(submitted.run.name)

    assert before == after
    assert earliest > 20.0  # two tasks of 10 s on each of two slots
    assert submitted.run.promise is not None
    assert not submitted.run.promise.broken


def test_who_comes_when_the_deadline_has_passed_is_told_the_earliest_finish_too(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = some_tasks(tmp_path / "w.json", 2, 10.0, name="passed")
    now = datetime.now().astimezone()
    passed = WantedDeadline(now - timedelta(seconds=60), now - timedelta(seconds=59))

    with pytest.raises(DeadlineRefusedError, match="the earliest that can be promised") as refused:
        cluster.submit(workflow, deadline=passed, fresh=True)

    assert refused.value.earliest_seconds > 70.0  # since it was asked for


def test_a_deadline_is_answered_though_nothing_has_to_run(
    cluster: LaptopCluster, tmp_path: Path
) -> None:
    workflow = some_tasks(tmp_path / "w.json", 2, 0.1, name="known")
    cluster.wait(cluster.submit(workflow).run.name)

    submitted = cluster.submit(workflow, deadline=within(600.0))

    assert submitted.due == 0
    assert submitted.answer is not None
    assert submitted.answer.sentence.startswith("accepted: ")


def test_best_effort_runs_what_cannot_be_promised(cluster: LaptopCluster, tmp_path: Path) -> None:
    wf = WorkflowBuilder("unknown")
    wf.command("echo 1 > one", id="one", outputs=["one"])
    write_workflow(wf.build(), tmp_path / "w.json")

    with pytest.raises(DeadlineRefusedError, match="nothing is known of how long"):
        cluster.submit(tmp_path / "w.json", deadline=within(60.0), fresh=True)
    effort = within(60.0, best_effort=True)
    submitted = cluster.submit(tmp_path / "w.json", deadline=effort, fresh=True)
    ended = cluster.wait(submitted.run.name)

    assert submitted.run.promise is not None
    assert submitted.run.promise.broken == "nobody promises it"
    assert ended.run.state is RunState.COMPLETE


def test_only_hosts_take_part_in_the_tree_and_only_submitters_ask_for_promises(
    cluster: LaptopCluster,
) -> None:
    mail = encoded_tree_mail(TreeMail(NodeId("n1"), 0.0))

    def is_taken(role: str, content: bytes) -> bool:
        async def ask() -> bool:
            async with cluster.visitor("submit") as finder, cluster.visitor(role) as visitor:
                await finder.cluster()
                visitor.members.update(finder.members)
                return await visitor.client.leave(NodeId("n1"), "/tree", content)

        return asyncio.run(ask())

    async def asks(visitor: Visitor) -> None:
        await visitor.promise(PromiseAsked((1.0,), ((),), 60.0))

    async def as_reader() -> None:
        async with cluster.visitor("read") as visitor:
            await asks(visitor)

    async def asks_nonsense(visitor: Visitor) -> None:
        await visitor.promise(PromiseAsked((1.0,), ((7,),), 60.0))

    assert is_taken("node", mail)
    assert not is_taken("node", b"\xc1")
    assert not is_taken("submit", mail)
    assert not is_taken("read", mail)
    with pytest.raises(ClusterError, match="no role"):
        asyncio.run(as_reader())
    with pytest.raises(ClusterError, match="no workflow"):
        cluster.ask(asks_nonsense)


# --- one host, one slot --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path_factory.mktemp("lone") / "lab", nodes=1) as up:
        yield up


def test_of_two_workflows_the_tighter_goes_first_though_it_came_second(
    lone: LaptopCluster, tmp_path: Path
) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    command = f"echo {{outputs}} >> {log}; until test -e {gate}; do sleep 0.05; done"
    loose = some_tasks(tmp_path / "loose.json", 3, 1.0, command, "loose")
    tight = some_tasks(tmp_path / "tight.json", 2, 1.0, command, "tight")

    first = lone.submit(loose, deadline=within(600.0), fresh=True).run.name
    wait_for_path(log)
    second = lone.submit(tight, deadline=within(60.0), fresh=True).run.name
    wait_for_files(
        lambda: asked(lone, second).counts.get("stage-in") == 2,
        "its tasks wait for a slot",
        *places_of(lone, second),
    )
    gate.touch()
    ended = [lone.wait(second), lone.wait(first)]

    order = [line.split("-")[0] for line in log.read_text().splitlines()]
    assert order == ["loose", "tight", "tight", "loose", "loose"]
    assert [facts_as_json(one)["promise"]["kept"] for one in ended] == [True, True]


def test_promises_survive_a_restart_of_their_host(lone: LaptopCluster, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    command = f"echo {{outputs}} >> {log}; until test -e {gate}; do sleep 0.05; done"
    long = some_tasks(tmp_path / "long.json", 2, 20.0, command, "long")
    run = lone.submit(long, deadline=within(200.0), fresh=True).run.name
    wait_for_path(log)
    log.unlink()

    lone.kill("n1")
    lone.start(1)
    wait_for_path(log)
    with pytest.raises(DeadlineRefusedError):  # it would fit, if nothing were promised
        lone.submit(
            some_tasks(tmp_path / "other.json", 2, 20.0, name="other"),
            deadline=within(200.0),
            fresh=True,
        )
    gate.touch()
    ended = lone.wait(run)

    assert ended.run.state is RunState.COMPLETE
    assert facts_as_json(ended)["promise"]["kept"] is True


# --- two hosts of two slots ----------------------------------------------------------------------


def wide_tasks(path: Path, cores: int) -> Path:
    """Three tasks of so many cores, one of one core, and one that waits for all of them."""
    wf = WorkflowBuilder("wide")
    files = [f"wide-{number}" for number in range(4)]
    for number, file in enumerate(files):
        line = f"echo {file} > {file}"
        width = cores if number else 1
        wf.command(line, id=f"t{number}", outputs=[file], runtime_seconds=1.0, cores=width)
    wf.command("cat {inputs} > all", id="all", inputs=files, outputs=["all"], runtime_seconds=0.1)
    write_workflow(wf.build(), path)
    return path


def test_tasks_of_several_cores_are_promised_in_slots_of_one_host(tmp_path: Path) -> None:
    with laptop_cluster(tmp_path / "lab", nodes=2, slots=2) as cluster:
        workflow = wide_tasks(tmp_path / "w.json", cores=2)
        submitted = cluster.submit(workflow, deadline=within(600.0), fresh=True)
        slots = {
            one.id: sorted((one.slot, *one.beside)) for one in promises_of(cluster, submitted.run)
        }
        ended = cluster.wait(submitted.run.name)
        with pytest.raises(SettingError, match="needs 3 cores, but no node has more than 2"):
            cluster.submit(
                wide_tasks(tmp_path / "x.json", cores=3), deadline=within(600.0), fresh=True
            )

    assert [slots[task] for task in ("t1", "t2", "t3")] == [[0, 1]] * 3
    assert [len(slots[task]) for task in ("t0", "all")] == [1, 1]
    assert ended.run.state is RunState.COMPLETE
    assert facts_as_json(ended)["promise"]["kept"] is True


# --- a host that is lost -------------------------------------------------------------------------


def changes(cluster: LaptopCluster, run: str) -> list[FinishPromised]:
    found = []
    for path in (cluster.path / "depots").glob(f"*/runs/{run}/events"):
        content = path.read_bytes()
        found += [
            event
            for event in events_in(content[: content.rfind(b"\n") + 1], is_start=True)
            if isinstance(event, FinishPromised) and event.why
        ]
    return found


def promised_by(cluster: LaptopCluster, run: ClusterRun) -> dict[str, NodeId]:
    """Which host has promised each task."""
    return {one.id: one.node for one in promises_of(cluster, run)}


@pytest.mark.parametrize(("seconds", "is_broken"), [(400.0, False), (110.0, True)])
def test_what_a_lost_host_has_promised_is_promised_anew(
    seconds: float, is_broken: bool, tmp_path: Path
) -> None:
    """Two tasks, for each of which some 70 s are reserved: both fit one slot only in 400 s."""
    gate = tmp_path / "gate"
    command = f"until test -e {gate}; do sleep 0.05; done"
    workflow = some_tasks(tmp_path / "w.json", 2, 20.0, command)
    with laptop_cluster(tmp_path / "lab", nodes=2) as cluster:
        run = cluster.submit(workflow, deadline=within(seconds), fresh=True).run
        victim = promised_by(cluster, run)["t0"]

        cluster.kill(victim)
        wait_for_files(
            lambda: changes(cluster, run.name),
            "the promise is given anew",
            *places_of(cluster, run.name),
        )
        now = asked(cluster, run.name)
        homes = promised_by(cluster, now.run)
        gate.touch()
        ended = cluster.wait(run.name)
        (changed,) = changes(cluster, run.name)

    assert run.promise is not None
    assert now.run.promise is not None
    assert ended.run.state is RunState.COMPLETE
    assert victim not in homes.values()
    assert {"t0", "all"} <= homes.keys()
    assert changed.why == f"{victim} is gone"
    assert (changed.finish > changed.deadline) is bool(now.run.promise.broken) is is_broken
    assert (now.run.promise.finish > run.promise.deadline) is is_broken
    assert (
        f"promise broken: {victim} is gone; now promised by" in sentence_about(now)
    ) is is_broken


# --- a task that takes longer than was reserved for it -------------------------------------------


@pytest.mark.parametrize(("seconds", "is_broken"), [(0.3, False), (2.0, True)])
def test_what_waits_for_a_late_task_is_promised_anew(
    seconds: float, is_broken: bool, tmp_path: Path
) -> None:
    """Of the 20 s, the short tasks have most to spare; nearly four times as much is reserved."""
    gate = tmp_path / "gate"
    wf = WorkflowBuilder("late")
    wait = f"until test -e {gate}; do sleep 0.05; done; echo 1 > one"
    wf.command(wait, id="slow", outputs=["one"], runtime_seconds=seconds)
    for name in ("two", "three"):
        line = f"cat {{inputs}} > {name}"
        wf.command(line, id=name, inputs=["one"], outputs=[name], runtime_seconds=seconds)
    write_workflow(wf.build(), tmp_path / "w.json")
    with laptop_cluster(tmp_path / "lab", nodes=2) as cluster:
        run = cluster.submit(tmp_path / "w.json", deadline=within(20.0), fresh=True).run
        wait_for_files(
            lambda: changes(cluster, run.name),
            "the promise is given anew",
            *places_of(cluster, run.name),
        )
        now = asked(cluster, run.name)
        gate.touch()
        ended = cluster.wait(run.name)
        changed = changes(cluster, run.name)[0]

    assert now.run.promise is not None
    assert changed.why == "slow took longer than was reserved for it"
    assert bool(now.run.promise.broken) is (changed.finish > changed.deadline) is is_broken
    assert ended.run.state is RunState.COMPLETE
