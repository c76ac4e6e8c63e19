"""Small worlds, exhaustively: every single fault holds, and missing safeguards are found."""

from dataclasses import dataclass

import pytest

from dataward.errors import SettingError
from dataward.sim.fault_pairs import single_faults
from dataward.sim.script import MESSAGES, PointKind, Track
from dataward.sim.small_worlds import SmallWorld, parse_world, try_world, worlds_by
from dataward.stores.shard import Shard
from sim.broken_shards import (
    BROKEN_SHARDS,
    CommitsTwice,
    CompletesTheRemoved,
    CountsNotices,
    ForgetsClaims,
    NeverRedelivers,
    OrphansTheLiving,
    SeizesTheLiving,
    SparesTheYoung,
    WithoutFence,
)

DIAMOND, FAN = SmallWorld("diamond", 2, "adage"), SmallWorld("fan", 2, "adage")


@pytest.mark.parametrize("world", worlds_by("adage"), ids=str)
def test_without_faults_a_world_holds_and_passes_points_of_every_kind(world: SmallWorld) -> None:
    calm = try_world(world)

    assert not calm.problem
    assert {track.series for track in world.tracks} == set(calm.ended)
    assert all(track.points(calm.struck, calm.ended) for track in world.tracks)


def test_a_fan_sends_more_messages_than_one_to_each_part_since_replicas_are_stopped() -> None:
    assert try_world(FAN).ended[MESSAGES] > 5


@pytest.mark.parametrize("track", DIAMOND.tracks, ids=lambda t: f"{t.kind.value}{t.place}x{t.span}")
def test_the_diamond_on_two_nodes_holds_with_this_fault_at_every_point(track: Track) -> None:
    worlds = [(w, f) for w, f in single_faults(try_world(DIAMOND)) if f[0].track == track]

    tried = [try_world(world, faults) for world, faults in worlds]

    assert tried
    assert [f"{one}: {one.problem}" for one in tried if one.problem] == []


@pytest.mark.parametrize("strategy", ["dataward", "matrix", "workqueue"])
def test_other_strategies_hold_in_worlds_of_their_own(strategy: str) -> None:
    tried = [try_world(world) for world in worlds_by(strategy)]

    assert [f"{one}: {one.problem}" for one in tried if one.problem] == []
    assert tried[2].ended != try_world(FAN).ended


@pytest.mark.parametrize("text", ["fan,2,forget s1@1-4", "fan,3,forget s1@1-4"])
def test_a_task_submitted_again_after_the_recount_hears_of_its_parents(text: str) -> None:
    assert not try_world(*parse_world(text, "dataward")).problem


def test_a_node_whose_renewal_is_forgotten_may_be_taken_for_dead() -> None:
    world = parse_world("diamond,2,message@3+forget s0@23-26", "dataward")

    assert not try_world(*world).problem


@pytest.mark.parametrize(
    "text",
    [
        "diamond,2,leave n1@12+leave n0@35",  # nobody is left
        "diamond,2,leave n0@15+leave n1@16",  # each sends its tasks to the other
        "fan,2,leave n0@1+leave n1@56",
        "diamond,2,leave n0@16+restart n0@145",  # it dies with a task in its queue and another's
        "fan,3,crash n2@81+leave n0@48",  # it leaves, and patrols meanwhile
        "diamond,3,crash n1@83+leave n2@45",
        "diamond,2,leave n0@31+crash n1@199",  # it hands over to one that is down
        "fan,2,leave n0@19+crash n1@122",  # the last who is up leaves, and patrols meanwhile
        "diamond,2,leave n0@10+crash n1@135",
        "fan,3,leave n0@61+crash n2@353",  # what was begun in vain waits again: the load is told
    ],
)
def test_nodes_may_leave_whatever_else_happens(text: str) -> None:
    assert not try_world(*parse_world(text, "dataward")).problem


@pytest.mark.parametrize("kind", [PointKind.LEAVE, PointKind.JOIN])
def test_under_dataward_a_node_leaves_or_joins_at_every_call(kind: PointKind) -> None:
    calm = try_world(SmallWorld("fan", 2, "dataward"))

    tried = [try_world(w, f) for w, f in single_faults(calm) if f[0].track.kind is kind]

    assert len(tried) > 40
    assert [f"{one}: {one.problem}" for one in tried if one.problem] == []


def test_a_task_that_ran_elsewhere_again_and_is_sent_on_before_it_starts_ran_again_once() -> None:
    world, faults = parse_world("fan,2,crash n1@125+message@4", "dataward")

    assert try_world(world, faults).problem == ""


def test_a_world_replays_exactly_from_its_text() -> None:
    tried = try_world(*parse_world("diamond,2,answer@17+crash n1@140", "adage"))

    again = try_world(*parse_world(str(tried), "adage"))

    assert again == tried
    assert tried.struck["n1"] == 140
    assert tried.ended != try_world(DIAMOND).ended


# --- the checks can fail -------------------------------------------------------------------------


@dataclass(frozen=True)
class Hole:
    """A shard with a safeguard missing, and the kind of fault that alone shows it."""

    shard: type[Shard]
    world: SmallWorld
    kind: PointKind
    betrayed_by: str


HOLES = [
    Hole(WithoutFence, DIAMOND, PointKind.FORGET, "after losing its lease"),
    Hole(CountsNotices, FAN, PointKind.ANSWER, "was told by"),
    Hole(NeverRedelivers, DIAMOND, PointKind.CRASH, "only 1 of 4 tasks"),
    Hole(CommitsTwice, FAN, PointKind.CALL, "and again by"),
    Hole(ForgetsClaims, DIAMOND, PointKind.ANSWER, "only 0 of 4 tasks"),
    Hole(SparesTheYoung, DIAMOND, PointKind.REMOVE, "only 1 of 4 tasks"),
]
# A patrol takes the living for dead without any fault; a node is asked after only once an attempt
# has lasted two leases, and none here is that long. An attempt at a removed task is stopped before
# it commits, unless another fault keeps it from being told.
NEED_NO_FAULT, NOT_FOUND = {OrphansTheLiving}, {SeizesTheLiving, CompletesTheRemoved}


def test_every_broken_shard_is_accounted_for() -> None:
    assert {hole.shard for hole in HOLES} | NEED_NO_FAULT | NOT_FOUND == set(BROKEN_SHARDS)
    assert "while its lease still holds" in try_world(DIAMOND, make_shard=OrphansTheLiving).problem


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.shard.__name__)
def test_without_a_safeguard_a_single_fault_at_some_point_goes_red(hole: Hole) -> None:
    calm = try_world(hole.world, make_shard=hole.shard)
    assert not calm.problem

    worlds = (one for one in single_faults(calm) if one[1][0].track.kind is hole.kind)
    problems = (try_world(world, faults, hole.shard).problem for world, faults in worlds)

    assert any(hole.betrayed_by in problem for problem in problems)


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "fan,3",
        "fan,2,call@1",
        "diamond,3,forget s2@14-17+restart n2@40",
        "fan,2,double@3",
        "fan,3,remove part2@9",
    ],
)
def test_a_world_is_read_as_it_is_printed(text: str) -> None:
    world, faults = parse_world(text)

    assert ",".join(filter(None, [str(world), "+".join(map(str, faults))])) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cube,2", "no small world begins 'cube,2'; there are diamond,2 diamond,3 fan,2 fan,3"),
        ("fan,7,call@1", "no small world begins"),
        ("fan,2,gremlin@3", "'gremlin@3' is no fault of fan,2; write for example answer@17"),
        ("fan,2,crash n2@3", "'crash n2@3' is no fault of fan,2"),
        ("fan,2,crash@3", "'crash@3' is no fault"),
        ("fan,2,remove part3@3", "'remove part3@3' is no fault of fan,2"),
        ("fan,2,call n0@3", "is no fault"),
        ("fan,2,call@2-3", "is no fault"),
        ("fan,2,call@0", "is no fault"),
        ("fan,2,forget s0@9-3", "is no fault"),
        ("fan,2,call@3+answer@3", "has two faults at one point"),
    ],
)
def test_a_text_that_names_no_world_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        parse_world(text)


def test_a_fault_at_a_point_that_the_world_does_not_come_to_is_refused() -> None:
    with pytest.raises(SettingError, match="diamond,2 ends before call@100000"):
        try_world(*parse_world("diamond,2,call@100000"))
