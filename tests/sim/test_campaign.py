"""Seeds of trouble, and each kind of trouble alone: every task still reaches its one outcome."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_diamond, workflows
from dataward.cli.seed_trials import try_seed
from dataward.cli.seed_workflows import Workflows
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    FaultInjected,
    FileEvicted,
    FileMoved,
    FileStored,
    NodeJoined,
    NodeLost,
    TaskFinished,
    TaskReopened,
    TaskTakenOver,
)
from dataward.model.platform import Machine, Placement, StoreModel, uniform_platform
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import Workflow
from dataward.sim.campaign import impatient, run_trial, small_cluster
from dataward.sim.faults import FaultPlan, inject, parse_faults
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import (
    FREE_STORE,
    GB,
    MB,
    React,
    Run,
    adage,
    all_on,
    cheap,
    descendants,
    equal_tasks,
    machines,
    one_task,
    simulate,
    soon,
)

FIXED = "chaos,late=0,leave=0"  # the chaos of a cluster whose nodes neither come nor go
HASTY = {"lease_seconds": 10.0, "validation_seconds": 5.0}

# --- all at once ---------------------------------------------------------------------------------


def test_a_run_that_moves_a_giant_file_to_its_end_is_not_stuck() -> None:
    """No task takes any time there, but 96 GB need 13 minutes once a node has room for them."""
    assert try_seed(20217, "dataward", FIXED, Workflows.ODD).problem == ""


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("faults", ["chaos", "crashes"])
def test_a_seed_holds(faults: str, seed: int) -> None:
    verdict = try_seed(seed, "adage", faults)

    assert not verdict.problem, f"replay: dataward seeds --seed {seed} --faults {faults}"
    assert verdict.checks > 0
    assert verdict.faults > 0


DEAF = f"{FIXED},store_silence=0.2,store_loss=0.1,forgetful=3,forget_seconds=10,partitions=4"
FULL = f"{FIXED},disk_full=1,disk_seconds=1000"


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        (1062, f"{FIXED},forgetful=4,forget_seconds=20"),  # two joins of one node under way
        (3176, "forgetful=4,forget_seconds=20,store_silence=0.2,partitions=2"),
        (3042, DEAF),
        (3075, DEAF),
        (3133, DEAF),  # a shard forgot that a parent had been reopened
        (1071, f"{FIXED},mute=1,mute_seconds=2000"),  # a commit forgotten by its shard
        (1049, FULL),  # Restate said again after a LetGo
        (3136, FULL),
    ],
)
def test_a_seed_that_once_failed_holds(seed: int, faults: str) -> None:
    assert not try_seed(seed, "adage", faults, Workflows.APPLICATIONS).problem


@pytest.mark.parametrize("seed", [366, 654])  # files that came before the node had joined
def test_a_seed_of_nodes_that_come_and_go_that_once_failed_holds(seed: int) -> None:
    assert not try_seed(seed, "dataward", "chaos").problem


COME_AND_GO = "late=0.6,leave=0.8"


@pytest.mark.parametrize(
    ("seed", "strategy", "faults"),
    [
        (2, "heft", "leave=0.5,leave_seconds=20"),  # tasks came while files were handed over
        (7, "dataward", "late=0.3,leave=0.3"),  # left before it had joined
        (12, "albatross", "leave=0.5,leave_seconds=20"),
        (16, "adage-no-replication", COME_AND_GO),  # whoever took files over was busy for long
        (24, "adage", COME_AND_GO),  # a replica that was given up was said to be in no queue
        (28, "adage", "late=0.3,leave=0.3"),
    ],
)
def test_nodes_come_and_go_and_nothing_else_happens(seed: int, strategy: str, faults: str) -> None:
    assert not try_seed(seed, strategy, faults).problem


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategy", ["dataward", "matrix", "workqueue", "cloudkon", "sparrow"])
def test_a_seed_of_nodes_that_come_and_go_holds(strategy: str, seed: int) -> None:
    verdict = try_seed(seed, strategy, COME_AND_GO)

    assert not verdict.problem
    assert verdict.faults == 10  # 4 of 7 come late, 6 leave


@pytest.mark.parametrize("seed", range(4))
def test_with_a_tenth_of_the_nodes_crashing_all_tasks_complete(seed: int) -> None:
    events: list[Event] = []
    montage = generate("montage", 100, seed=1)

    trial = run_trial(
        montage,
        uniform_platform(20, cores=1),
        impatient(STRATEGIES["adage"], seed),
        FaultPlan(crash=0.1),
        seed,
        sinks=(events.append,),
    )

    assert trial.faults == 2
    assert (trial.outcome.complete, trial.outcome.failed) == (len(montage), 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_holds(strategy: str) -> None:
    montage = generate("montage", 60, seed=1)

    trial = run_trial(
        montage,
        small_cluster(3),
        impatient(STRATEGIES[strategy], 3),
        FaultPlan(crash=0.3, partitions=1, store_loss=0.01, message_loss=0.05),
        3,
    )

    assert (trial.outcome.complete, trial.outcome.failed) == (len(montage), 0)


def test_every_measure_of_a_cluster_is_drawn_from_its_seed() -> None:
    assert small_cluster(1) == small_cluster(1)
    clusters = [small_cluster(seed) for seed in range(20)]
    assert {c.placement for c in clusters} == {Placement.EDGE, Placement.SPREAD}
    assert {c.store.shards for c in clusters} == {1, 3, 8}
    assert all(c.machines[0].capacity_bytes == 1e12 for c in clusters)


# --- tasks that fail by themselves ---------------------------------------------------------------


def failed_tasks(run: Run) -> set[str]:
    return {id for id, record in run.records.items() if record.state is TaskState.FAILED}


@given(workflows(max_tasks=12), st.data())
@settings(max_examples=40, deadline=None)
def test_a_failure_takes_its_descendants_with_it_and_no_others(
    workflow: Workflow, data: st.DataObject
) -> None:
    ids = [str(task) for task in workflow.task_ids]
    hopeless = data.draw(st.sets(st.sampled_from(ids), max_size=3), label="hopeless")
    retries = data.draw(st.integers(0, 2), label="retries")

    run = simulate(
        workflow,
        cheap(*machines(3)),
        retries=retries,
        task_failures=dict.fromkeys(hopeless, 1000),
    )

    doomed = descendants(workflow, hopeless)
    assert failed_tasks(run) == doomed
    assert run.outcome is not None
    assert (run.outcome.complete, run.outcome.failed) == (len(ids) - len(doomed), len(doomed))
    told = Counter(event.task for event in run.all(TaskFinished))
    assert told == dict.fromkeys(ids, 1)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_task_fails_only_after_its_retries(retries: int) -> None:
    run = simulate(
        a_diamond(),
        cheap(*machines(2)),
        adage(giving=False),
        retries=retries,
        task_failures={"left": 1000},
    )

    assert run.ends("left") == [(run.ends("left")[0][0], "failed")] * (1 + retries)
    assert failed_tasks(run) == {"left", "join"}
    assert not run.ends("join")


def test_a_task_that_fails_less_often_than_it_may_completes() -> None:
    run = simulate(a_diamond(), cheap(*machines(2)), retries=2, task_failures={"left": 2})

    assert not failed_tasks(run)
    assert Counter(outcome for _, outcome in run.ends("left")) == {"failed": 2, "won": 1}


def test_a_tasks_own_retries_count_before_the_runs() -> None:
    wf = WorkflowBuilder("stubborn")
    wf.task("stubborn", runtime_seconds=1.0, retries=2)
    wf.task("plain", runtime_seconds=1.0)

    run = simulate(
        wf.build(), cheap(*machines(1)), task_failures={"stubborn": 2, "plain": 1}, retries=0
    )

    assert failed_tasks(run) == {"plain"}


@pytest.mark.parametrize("seed", range(6))
def test_failures_cascade_exactly_even_when_all_else_goes_wrong(seed: int) -> None:
    montage = generate("montage", 40, seed=1)
    hopeless = {str(montage.task_ids[7 + seed])}
    plan = FaultPlan(
        crash=0.3, crash_seconds=30.0, partitions=1, store_loss=0.05, store_silence=0.05
    )

    run = simulate(
        montage,
        small_cluster(seed, nodes=5),
        adage(**HASTY),
        seed=seed,
        meddle=lambda simulation: _ignore(inject(simulation, plan, 60.0)),
        task_failures=dict.fromkeys(hopeless, 10**6),
    )

    assert failed_tasks(run) == descendants(montage, hopeless)


def _ignore(_: object) -> None:
    return None


# --- nodes that go -------------------------------------------------------------------------------


def a_join() -> Workflow:
    """``left`` and ``right`` each make a gigabyte that ``join`` reads."""
    wf = WorkflowBuilder("join")
    for side in ("left", "right"):
        wf.file(f"{side}.out", GB)
        wf.task(side, outputs=[f"{side}.out"], runtime_seconds=10.0)
    wf.task("join", inputs=["left.out", "right.out"], runtime_seconds=10.0)
    return wf.build()


def crash_maker_of(task: str, back_after_seconds: float = float("inf")) -> React:
    """Crash, once, the node that finished a task, as soon as it has."""
    done: list[Event] = []

    def react(simulation: Simulation, event: Event) -> None:
        if isinstance(event, TaskFinished) and event.task == task and not done:
            done.append(event)
            soon(simulation, simulation.crash, event.node)
            if back_after_seconds < float("inf"):
                simulation.kernel.call_at(
                    event.at + back_after_seconds, simulation.boot, event.node
                )

    return react


def test_data_that_went_with_its_only_holder_is_made_again() -> None:
    run = simulate(a_join(), cheap(*machines(3)), adage(**HASTY), react=crash_maker_of("left"))

    (lost,) = run.all(NodeLost)
    assert [event.task for event in run.all(TaskReopened)] == ["left"]
    first, second = (node for node, outcome in run.ends("left") if outcome == "won")
    assert first == lost.node != second
    assert all(record.state is TaskState.COMPLETE for record in run.records.values())
    assert run.records["left"].generation == 2


def test_lost_data_whose_makers_inputs_are_lost_too_is_made_again_from_the_start() -> None:
    wf = WorkflowBuilder("chain")
    for i in range(4):
        wf.file(f"f{i}", 100 * MB)
        wf.task(f"t{i}", inputs=[f"f{i - 1}"] if i else [], outputs=[f"f{i}"], runtime_seconds=10.0)

    run = simulate(
        wf.build(),
        cheap(*machines(2)),
        all_on(0, giving=False, **HASTY),
        react=crash_maker_of("t2"),
    )

    assert [event.task for event in run.all(TaskReopened)] == ["t2", "t1", "t0"]
    assert all(record.state is TaskState.COMPLETE for record in run.records.values())
    assert {n for n, outcome in run.ends("t3") if outcome == "won"} == {"n1"}


def test_a_node_that_comes_back_in_time_still_has_its_data() -> None:
    restart = crash_maker_of("left", back_after_seconds=1.0)

    run = simulate(a_join(), cheap(*machines(3)), adage(**HASTY), react=restart)

    assert not run.all(TaskReopened)
    assert [event.incarnation for event in run.all(NodeJoined)] == [1, 1, 1, 2]
    assert Counter(outcome for _, outcome in run.ends("left")) == {"won": 1}


def test_the_tasks_of_a_node_that_is_gone_are_taken_over() -> None:
    def crash_at_five(simulation: Simulation) -> None:
        simulation.kernel.call_at(5.0, simulation.crash, "n0")

    run = simulate(
        equal_tasks(6, 10.0),
        cheap(*machines(3)),
        all_on(0, giving=False, **HASTY),
        meddle=crash_at_five,
    )

    assert {(e.node, e.incarnation) for e in run.all(TaskTakenOver)} == {("n0", 1)}
    assert {event.task for event in run.all(TaskTakenOver)} == {f"t{i}" for i in range(6)}
    won = {e.node for e in run.all(AttemptEnded) if e.outcome is AttemptOutcome.WON}
    assert won <= {"n1", "n2"}


def test_a_node_is_missed_only_once_its_lease_has_expired() -> None:
    def crash_after_five(simulation: Simulation) -> None:
        simulation.kernel.call_at(5.5, simulation.crash, "n0")

    one_shard = replace(FREE_STORE, shards=1)
    run = simulate(
        one_task(10.0),
        cheap(*machines(2), store=one_shard),
        all_on(0, giving=False, **HASTY),
        meddle=crash_after_five,
    )

    # Renewed at 5 s, it holds until 15 s and not longer; the other node looks every 5 s.
    assert run.all(TaskTakenOver)[0].at == pytest.approx(20.0)
    assert run.makespan == pytest.approx(30.0)


def test_the_only_node_may_crash_and_come_back() -> None:
    def crash_for_a_while(simulation: Simulation) -> None:
        simulation.kernel.call_at(15.0, simulation.crash, "n0")
        simulation.kernel.call_at(100.0, simulation.boot, "n0")

    run = simulate(equal_tasks(3, 10.0), cheap(*machines(1)), meddle=crash_for_a_while)

    # t0 was done; the other two begin again.
    assert run.makespan == pytest.approx(120.0)
    assert Counter(e.task for e in run.all(AttemptBegan)) == {"t0": 1, "t1": 2, "t2": 2}


def test_a_slow_node_keeps_its_tasks() -> None:
    def slow_down(simulation: Simulation) -> None:
        simulation.kernel.call_at(5.0, simulation.machines["n0"].change_speed, 10.0)

    run = simulate(
        one_task(10.0), cheap(*machines(2)), all_on(0, giving=False, **HASTY), meddle=slow_down
    )

    assert run.makespan == pytest.approx(55.0)
    assert not run.all(TaskTakenOver)


# --- holders that do not serve -------------------------------------------------------------------


def mute_makers(seconds: float) -> Run:
    def mute(simulation: Simulation, event: Event) -> None:
        if isinstance(event, TaskFinished) and event.task in ("left", "right"):
            machine = simulation.machines[event.node]
            machine.serves = False
            simulation.kernel.call_at(event.at + seconds, setattr, machine, "serves", True)

    return simulate(a_join(), cheap(*machines(2)), adage(**HASTY), react=mute)


def test_what_a_mute_holder_will_not_give_is_made_again() -> None:
    run = mute_makers(seconds=10_000.0)

    assert len(run.all(TaskReopened)) == 1
    assert not run.all(FileMoved)
    assert all(record.state is TaskState.COMPLETE for record in run.records.values())


def test_a_holder_that_is_mute_for_a_moment_is_asked_again() -> None:
    run = mute_makers(seconds=0.5)

    assert not run.all(TaskReopened)
    assert len(run.all(FileMoved)) == 1


def test_an_input_of_the_workflow_comes_from_the_edge_if_its_holder_is_mute() -> None:
    def mute_all(simulation: Simulation) -> None:
        for machine in simulation.machines.values():
            machine.serves = False

    platform = cheap(*machines(3), placement=Placement.SPREAD)
    run = simulate(equal_tasks(3, 10.0, reads=GB), platform, all_on(0), meddle=mute_all)

    assert {event.source for event in run.all(FileMoved)} <= {"origin"}
    assert all(record.state is TaskState.COMPLETE for record in run.records.values())


# --- disks that are full -------------------------------------------------------------------------


def most_stored(run: Run, node: str) -> int:
    """The most bytes that were ever on a node's disk, by the events."""
    stored: dict[str, int] = {}
    most = 0
    for event in run.events:
        if isinstance(event, FileStored) and event.node == node:
            stored[event.file] = event.size_bytes
        elif isinstance(event, FileEvicted) and event.node == node:
            stored.pop(event.file, None)
        most = max(most, sum(stored.values()))
    return most


def test_a_task_whose_outputs_do_not_fit_goes_elsewhere() -> None:
    small = Machine("n0", cores=1, capacity_bytes=GB)
    large = Machine("n1", cores=1)

    run = simulate(equal_tasks(4, 10.0, writes=600 * MB), cheap(small, large), all_on(0))

    ends = [end for task in run.records for end in run.ends(task)]
    assert ("n0", "released") in ends
    assert ends.count(("n0", "won")) == 1
    assert most_stored(run, "n0") <= GB


def test_copies_make_room_for_what_is_needed() -> None:
    tasks = equal_tasks(5, 10.0, reads=400 * MB)
    platform = cheap(*machines(1, capacity_bytes=float(GB)))

    run = simulate(tasks, platform, adage(staging_ahead=0))

    assert len(run.all(FileEvicted)) == 3
    assert most_stored(run, "n0") <= GB
    assert not [end for task in run.records for end in run.ends(task) if end[1] != "won"]


def test_a_disk_that_stays_full_fails_the_task_of_a_node_that_is_alone() -> None:
    def fill(simulation: Simulation) -> None:
        simulation.machines["n0"].capacity_bytes = 0.0

    run = simulate(one_task(10.0, writes=GB), cheap(*machines(1)), meddle=fill)

    outcomes = [outcome for _, outcome in run.ends("t0")]
    assert outcomes == ["released"] * 30 + ["failed"]


def test_a_disk_that_is_full_for_a_while_only_delays() -> None:
    def fill_for_a_minute(simulation: Simulation) -> None:
        machine = simulation.machines["n0"]
        machine.capacity_bytes = 0.0
        simulation.kernel.call_at(60.0, setattr, machine, "capacity_bytes", 1e12)

    run = simulate(one_task(10.0, writes=GB), cheap(*machines(1)), meddle=fill_for_a_minute)

    outcomes = [outcome for _, outcome in run.ends("t0")]
    assert outcomes[:-1] == ["released"] * (len(outcomes) - 1)
    assert outcomes[-1] == "won"
    assert run.makespan > 60.0


# --- a store that forgets ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_with_writes_that_a_shard_loses(seed: int) -> None:
    montage = generate("montage", 60, seed=1)
    platform = replace(uniform_platform(5), store=StoreModel(shards=2))
    plan = FaultPlan(forgetful=4, forget_seconds=20.0)
    events: list[Event] = []

    trial = run_trial(montage, platform, adage(**HASTY), plan, seed, sinks=(events.append,))

    assert (trial.outcome.complete, trial.outcome.failed) == (len(montage), 0)
    assert {e.kind for e in events if isinstance(e, FaultInjected)} == {"forget"}


def test_a_commit_told_again_while_its_files_are_written_again_is_no_breach() -> None:
    strategy = impatient(STRATEGIES["adage-no-data"], 6)
    workflow = generate("fan-in", 30, seed=6)

    run_trial(workflow, small_cluster(6), strategy, parse_faults(FIXED), 6)
