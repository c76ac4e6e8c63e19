"""Simulated time against time computed by hand, and ADAGE's rules seen at work."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from dataward.errors import SettingError
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    FileMoved,
    FileStored,
    NodeJoined,
    RunEnded,
    RunStarted,
    TaskFinished,
    WorkGiven,
)
from dataward.model.ids import ORIGIN
from dataward.model.platform import Machine, Placement, Platform, StoreModel, uniform_platform
from dataward.model.seeds import seeded
from dataward.model.states import ALLOWED, AttemptOutcome, TaskState
from dataward.sim.simulation import Simulation, Stuck
from sim.small_runs import (
    FREE_STORE,
    GB,
    MB,
    Run,
    adage,
    all_on,
    cheap,
    equal_tasks,
    machines,
    one_task,
    simulate,
)

# --- what time is charged for --------------------------------------------------------------------


def test_a_task_costs_its_transfer_its_reading_and_its_work() -> None:
    fast = Machine("n0", cores=1, speed=2.0)

    run = simulate(one_task(10.0, reads=GB), cheap(fast))

    # 1 GB over 1 Gbps: 8 s. Read at 500 MB/s: 2 s. 10 s of work at speed 2: 5 s.
    assert run.times(TaskState.RUNNING)["t0"] == pytest.approx(10.0)
    assert run.makespan == pytest.approx(15.0)


def test_outputs_are_written_at_the_disks_speed() -> None:
    run = simulate(one_task(10.0, writes=GB), cheap(*machines(1)))

    assert run.times(TaskState.STAGE_OUT)["t0"] == pytest.approx(10.0)
    assert run.makespan == pytest.approx(12.0)


def test_every_call_to_the_store_is_a_round_trip() -> None:
    slow_store = StoreModel(latency_seconds=1.0, service_seconds=0.0)

    run = simulate(one_task(10.0, reads=GB), cheap(*machines(1), store=slow_store))

    # Submit 2 s, queue and claim 2 s, begin 2 s, look for the input 2 s; then 8 s to bring it in,
    # 2 s to read it and 10 s to run; the commit has taken effect after 1 s.
    assert run.makespan == pytest.approx(29.0)


def test_a_request_for_a_file_is_a_round_trip() -> None:
    run = simulate(one_task(10.0, reads=GB), cheap(*machines(1), latency_seconds=0.25))

    assert run.makespan == pytest.approx(20.5)
    (moved,) = run.all(FileMoved)
    assert (moved.source, moved.target, moved.seconds) == (ORIGIN, "n0", pytest.approx(8.5))


def test_a_change_of_speed_counts_from_when_it_happens() -> None:
    def halve_at_four(simulation: Simulation) -> None:
        simulation.kernel.call_at(4.0, simulation.machines["n0"].change_speed, 2.0)

    run = simulate(one_task(10.0), cheap(*machines(1)), meddle=halve_at_four)

    # 4 s at full speed, the other 6 s of work at half of it.
    assert run.makespan == pytest.approx(16.0)


def test_speed_may_change_back() -> None:
    def slow_from_four_to_eight(simulation: Simulation) -> None:
        machine = simulation.machines["n0"]
        simulation.kernel.call_at(4.0, machine.change_speed, 4.0)
        simulation.kernel.call_at(8.0, machine.change_speed, 1.0)

    run = simulate(one_task(10.0), cheap(*machines(1)), meddle=slow_from_four_to_eight)

    assert run.makespan == pytest.approx(8.0 + 5.0)


def test_two_flows_share_a_link() -> None:
    run = simulate(equal_tasks(2, 5.0, reads=GB), cheap(*machines(1, cores=2)))

    # 2 GB through one 1 Gbps link: 16 s for both; then 2 GB through one disk: 4 s.
    assert run.times(TaskState.RUNNING) == {"t0": pytest.approx(20.0), "t1": pytest.approx(20.0)}
    assert run.makespan == pytest.approx(25.0)


def test_what_one_flow_leaves_the_other_gets() -> None:
    wf = WorkflowBuilder("half and whole")
    wf.file("half", GB // 2)
    wf.file("whole", GB)
    wf.task("a", inputs=["half"], runtime_seconds=5.0)
    wf.task("b", inputs=["whole"], runtime_seconds=5.0)

    run = simulate(wf.build(), cheap(*machines(1, cores=2)))

    # Each at 62.5 MB/s until the half is here, at 8 s; the rest of the whole comes at 125 MB/s, at
    # 12 s. Reading the half meanwhile gets the disk's other 375 MB/s, and takes 4/3 s.
    assert run.times(TaskState.RUNNING) == {
        "a": pytest.approx(8.0 + 4 / 3),
        "b": pytest.approx(14.0),
    }
    assert run.makespan == pytest.approx(19.0)


def test_the_edge_servers_own_link_is_shared_by_all() -> None:
    platform = cheap(*machines(4), origin_bytes_per_second=100 * MB)

    run = simulate(equal_tasks(4, 0.0, reads=GB), platform, adage(giving=False))

    assert run.makespan == pytest.approx(40.0 + 2.0)


@pytest.mark.parametrize(
    ("origin_site", "seconds"),
    [("here", 8.0), ("there", 100.0), ("", 100.0)],
    ids=["in the same site", "in another", "beyond all sites"],
)
def test_a_slow_link_between_sites_slows_only_what_crosses_it(
    origin_site: str, seconds: float
) -> None:
    parts = (Machine("n0", cores=1, site="here"), Machine("n1", cores=1, site="there"))
    platform = cheap(*parts, site_bytes_per_second=10 * MB, origin_site=origin_site)

    run = simulate(one_task(0.0, reads=GB), platform, all_on(0, giving=False))

    assert run.makespan == pytest.approx(seconds + 2.0)


def test_sites_are_further_apart() -> None:
    platform = cheap(
        *machines(1, site="here"),
        latency_seconds=0.25,
        site_latency_seconds=1.0,
        origin_site="there",
    )

    run = simulate(one_task(10.0, reads=GB), platform)

    assert run.makespan == pytest.approx(20.0 + 2 * 1.25)


def test_as_many_tasks_run_as_there_are_cores() -> None:
    run = simulate(equal_tasks(5, 10.0), cheap(*machines(1, cores=2)))

    assert run.makespan == pytest.approx(30.0)


def test_a_task_of_two_cores_takes_two() -> None:
    run = simulate(equal_tasks(3, 10.0, cores=2), cheap(*machines(1, cores=4)))

    assert run.makespan == pytest.approx(20.0)


def test_a_task_that_wants_more_cores_than_its_node_has_takes_them_all() -> None:
    parts = (Machine("small", cores=2), Machine("big", cores=8))

    run = simulate(equal_tasks(2, 10.0, cores=8), cheap(*parts), all_on(0, giving=False))

    assert run.makespan == pytest.approx(20.0)


def test_a_task_wider_than_every_node_is_refused() -> None:
    with pytest.raises(SettingError, match="needs 64 cores, but no node has more than 4"):
        simulate(equal_tasks(2, 10.0, cores=64), cheap(*machines(1, cores=4)))


def test_tasks_that_need_the_memory_run_one_after_the_other() -> None:
    wf = WorkflowBuilder("greedy")
    for task in ("a", "b"):
        wf.task(task, runtime_seconds=10.0, memory_bytes=6 * GB)
    wf.task("c", runtime_seconds=10.0, memory_bytes=2 * GB)

    crowded = simulate(wf.build(), cheap(*machines(1, cores=4)))
    roomy = simulate(wf.build(), cheap(*machines(1, cores=4, memory_bytes=14e9)))

    assert crowded.makespan == pytest.approx(20.0)
    assert roomy.makespan == pytest.approx(10.0)


def test_unequal_nodes_are_loaded_by_what_they_can_do() -> None:
    parts = (Machine("big", cores=4), Machine("small", cores=1), Machine("fast", cores=1, speed=2))

    run = simulate(equal_tasks(14, 10.0), cheap(*parts), adage(neighbours=3))

    won = [e.node for e in run.all(AttemptEnded) if e.outcome is AttemptOutcome.WON]
    assert run.makespan == pytest.approx(20.0, abs=0.01)
    assert {node: won.count(node) for node in won} == {"big": 8, "small": 2, "fast": 4}


def test_inputs_are_brought_in_while_cores_are_busy() -> None:
    tasks, platform = equal_tasks(2, 10.0, reads=GB), cheap(*machines(1))

    ahead = simulate(tasks, platform, adage(staging_ahead=1))
    behind = simulate(tasks, platform, adage(staging_ahead=0))

    assert behind.makespan == pytest.approx(2 * 20.0)
    # Both inputs come at once and are read at once: 16 s + 4 s, then one after the other.
    assert ahead.makespan == pytest.approx(40.0)
    assert ahead.times(TaskState.RUNNING)["t1"] == pytest.approx(30.0)


def test_a_hot_shard_shows() -> None:
    montage = generate("montage", 60, seed=1)

    def makespan(shards: int) -> float:
        store = StoreModel(shards=shards, service_seconds=0.05)
        platform = replace(uniform_platform(8), store=store)
        return simulate(montage, platform).makespan

    assert makespan(1) > 1.2 * makespan(8)


# --- where inputs are ----------------------------------------------------------------------------


def test_inputs_that_are_everywhere_are_all_found_locally() -> None:
    platform = cheap(*machines(4), placement=Placement.SPREAD, copies=4)

    run = simulate(equal_tasks(8, 10.0, reads=GB), platform)

    assert run.summary.locality == 1.0
    assert run.summary.bytes_moved == 0


def test_tasks_go_where_their_inputs_are() -> None:
    platform = cheap(*machines(4, cores=4), placement=Placement.SPREAD)

    run = simulate(equal_tasks(4, 10.0, reads=GB), platform, adage(giving=False))

    assert run.summary.locality == 1.0
    assert run.summary.bytes_moved == 0


@pytest.mark.parametrize("copies", [1, 2])
def test_dealt_inputs_are_as_many_on_every_node_and_their_copies_apart(copies: int) -> None:
    platform = cheap(*machines(3), placement=Placement.DEALT, copies=copies)

    run = simulate(equal_tasks(12, 10.0, reads=GB, writes=1), platform)

    placed = [(e.file, e.node) for e in run.events if isinstance(e, FileStored) and e.at == 0.0]
    assert len(set(placed)) == 12 * copies
    assert Counter(node for _, node in placed) == dict.fromkeys(("n0", "n1", "n2"), 4 * copies)
    assert list(dict.fromkeys(file for file, _ in placed)) != [f"in{i}" for i in range(12)]


def test_inputs_at_the_edge_all_come_from_there() -> None:
    run = simulate(equal_tasks(4, 10.0, reads=GB), cheap(*machines(2)), adage(giving=False))

    assert run.summary.locality == 0.0
    assert run.summary.bytes_moved == run.summary.bytes_from_origin == 4 * GB


def test_a_file_wanted_twice_on_a_node_is_brought_once() -> None:
    wf = WorkflowBuilder("one file, two readers")
    wf.file("big", GB)
    for task in ("a", "b"):
        wf.task(task, inputs=["big"], runtime_seconds=10.0)

    run = simulate(wf.build(), cheap(*machines(1, cores=2)))

    assert run.summary.bytes_moved == GB
    assert run.makespan == pytest.approx(8.0 + 4.0 + 10.0)  # both read it through the one disk


# --- ADAGE at work -------------------------------------------------------------------------------

PAIR = cheap(*machines(2))
GIVING = {"neighbours": 2}


def test_work_is_given_by_the_loaded_to_the_idle() -> None:
    run = simulate(equal_tasks(8, 10.0), PAIR, all_on(0, **GIVING))

    gifts = run.all(WorkGiven)
    assert {(gift.source, gift.target) for gift in gifts} == {("n0", "n1")}
    assert run.makespan <= 60.0  # alone it takes 80


def test_half_of_what_is_queued_is_given_from_the_least_urgent_end() -> None:
    run = simulate(equal_tasks(9, 10.0), PAIR, all_on(0, staging_ahead=0, **GIVING))

    first = run.all(WorkGiven)[0]
    assert set(first.tasks) == {"t8", "t7", "t6", "t5"}
    assert first.tasks[0] == "t8"


def test_without_giving_work_stays_where_the_plan_puts_it() -> None:
    run = simulate(equal_tasks(8, 10.0), PAIR, all_on(0, giving=False))

    assert not run.all(WorkGiven)
    assert {event.node for event in run.all(AttemptBegan)} == {"n0"}
    assert run.makespan == pytest.approx(80.0)


def test_without_replication_what_is_given_is_moved() -> None:
    strategy = all_on(0, replication=False, backups_max=0, **GIVING)

    run = simulate(equal_tasks(8, 10.0), PAIR, strategy)

    assert run.all(WorkGiven)
    began = [event.task for event in run.all(AttemptBegan)]
    assert len(began) == len(set(began)) == 8
    assert not any(event.replica for event in run.all(AttemptBegan))
    assert run.makespan <= 60.0


def test_a_task_is_not_passed_round_between_nodes_that_are_all_busy() -> None:
    strategy = all_on(0, replication=False, backups_max=0, staging_ahead=0, **GIVING)

    run = simulate(equal_tasks(5, 10.0), PAIR, strategy)

    gifts = Counter(task for gift in run.all(WorkGiven) for task in gift.tasks)
    assert max(gifts.values()) <= 5


def a_race() -> Run:
    """One node gives to another that is a little faster: both get to run some tasks."""
    slower, faster = Machine("n0", cores=1, speed=0.7), Machine("n1", cores=1)
    return simulate(equal_tasks(12, 10.0), cheap(slower, faster), all_on(0, **GIVING))


def test_the_first_replica_to_commit_wins_and_the_others_are_cancelled() -> None:
    run = a_race()

    ends = {task: [outcome for _, outcome in run.ends(task)] for task in run.records}
    assert any(len(outcomes) > 1 for outcomes in ends.values()), "nothing was run twice"
    for outcomes in ends.values():
        assert sorted(outcomes) in (["won"], ["cancelled", "won"])


def test_a_running_replica_is_cancelled_as_soon_as_another_has_won() -> None:
    run = a_race()

    finished = {event.task: event.at for event in run.all(TaskFinished)}
    cancelled = [e for e in run.all(AttemptEnded) if e.outcome is AttemptOutcome.CANCELLED]
    assert cancelled
    assert all(e.at == pytest.approx(finished[e.task], abs=1e-6) for e in cancelled)


@pytest.mark.parametrize("backups_max", [0, 1, 2])
def test_no_task_has_more_backups_than_it_may(backups_max: int) -> None:
    strategy = all_on(0, backups_max=backups_max, neighbours=6)

    run = simulate(equal_tasks(30, 10.0), cheap(*machines(6)), strategy)

    nodes: dict[str, set[str]] = {}
    for event in run.all(AttemptBegan):
        nodes.setdefault(event.task, set()).add(event.node)
    assert max(map(len, nodes.values())) <= 1 + backups_max
    assert max(record.backups for record in run.records.values()) == backups_max


def test_urgent_tasks_run_first() -> None:
    run = simulate(equal_tasks(6, 10.0), cheap(*machines(1)), all_on(0))

    assert list(run.times(TaskState.RUNNING)) == [f"t{i}" for i in range(6)]


# --- what is written down ------------------------------------------------------------------------


def test_a_tasks_history_is_figure_2_with_the_time_of_each_step() -> None:
    run = simulate(one_task(10.0, reads=GB, writes=GB), cheap(*machines(1)))

    assert run.records["t0"].history == [
        (0.0, TaskState.WAITING),
        (0.0, TaskState.READY),
        (0.0, TaskState.STAGE_IN),
        (pytest.approx(10.0), TaskState.RUNNING),
        (pytest.approx(20.0), TaskState.STAGE_OUT),
        (pytest.approx(22.0), TaskState.COMPLETE),
    ]


def test_outcomes_that_tasks_wait_for_go_sooner_while_there_is_other_work() -> None:
    wf = WorkflowBuilder("some alone")
    wf.task("parent", runtime_seconds=10)
    wf.task("alone", runtime_seconds=10)
    for i in range(4):
        wf.task(f"more{i}", runtime_seconds=10)
    wf.task("child", runtime_seconds=10, after=["parent"])

    run = simulate(
        wf.build(), cheap(*machines(1)), all_on(0, outcome_seconds=1.0, unawaited_seconds=2.0)
    )

    written = run.times(TaskState.STAGE_OUT)
    waited = {e.task: e.at - written[e.task] for e in run.all(TaskFinished)}
    assert waited["parent"] == pytest.approx(1.0)
    assert waited["alone"] == pytest.approx(3.0)
    assert waited["child"] == pytest.approx(0.0), "there was nothing else to do"


def test_every_history_follows_figure_2_and_agrees_with_the_events() -> None:
    run = simulate(generate("montage", 60, seed=1), uniform_platform(4, cores=2))

    won = {e.task: e.attempt for e in run.all(AttemptEnded) if e.outcome is AttemptOutcome.WON}
    assert set(won) == set(run.records)
    for record in run.records.values():
        times = [at for at, _ in record.history]
        states = [state for _, state in record.history]
        assert times == sorted(times)
        assert all(after in ALLOWED[before] for before, after in pairwise(states))
        assert states[0] is TaskState.WAITING
        assert states[-1] is record.state is TaskState.COMPLETE


def test_the_event_list_opens_and_closes_the_run() -> None:
    workflow, platform = equal_tasks(3), cheap(*machines(2, cores=2))

    run = simulate(workflow, platform, seed=7)

    first, last = run.events[0], run.events[-1]
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunEnded)
    assert (first.workflow, first.tasks, first.strategy, first.seed) == (
        "equal tasks",
        3,
        "adage",
        7,
    )
    assert [(facts.id, facts.cores) for facts in first.nodes] == [("n0", 2), ("n1", 2)]
    assert (last.at, last.complete, last.failed) == (run.makespan, 3, 0)
    assert [event.node for event in run.all(NodeJoined)] == ["n0", "n1"]


def test_the_same_seed_gives_the_same_events() -> None:
    montage, platform = generate("montage", 40, seed=1), uniform_platform(4)

    one, same, other = (simulate(montage, platform, seed=seed).events for seed in (1, 1, 2))

    assert one == same
    assert one != other


def test_a_run_that_does_not_end_says_so() -> None:
    with pytest.raises(Stuck, match="after 5 simulated seconds only 0 of 1 tasks") as stuck:
        simulate(one_task(10.0), cheap(*machines(1)), time_limit_seconds=5.0)

    assert stuck.value.seconds == 5.0


# --- the platform itself -------------------------------------------------------------------------


def test_a_uniform_platform_has_equal_nodes_named_in_order() -> None:
    platform = uniform_platform(101, cores=2, bandwidth=10e6)

    ids = [machine.id for machine in platform.machines]
    assert ids == sorted(ids)
    assert (ids[0], ids[-1]) == ("n000", "n100")
    assert {replace(machine, id="") for machine in platform.machines} == {
        Machine("", cores=2, up_bytes_per_second=10e6, down_bytes_per_second=10e6)
    }
    assert platform.cores == 202
    assert {machine.memory_bytes for machine in platform.machines} == {8e9}


def test_random_streams_are_named() -> None:
    assert seeded(1, "a").random() == seeded(1, "a").random()
    assert len({seeded(*words).random() for words in [(1, "a"), (1, "b"), (2, "a"), (1,)]}) == 4


def test_store_and_messages_of_a_cheap_platform_are_free() -> None:
    platform: Platform = cheap(*machines(1))

    assert (platform.latency_seconds, platform.store) == (0.0, FREE_STORE)
