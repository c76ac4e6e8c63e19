"""Small worlds: a few tasks on two or three nodes, always the same, but for scripted faults.

`script` says what a point is, and `fault_pairs` which faults there are to try.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from dataward.errors import SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.platform import Platform, StoreModel, uniform_platform
from dataward.model.workflow import Workflow
from dataward.sim.campaign import PATIENCE, checker_of, run_checked
from dataward.sim.script import PointFault, PointKind, Points, Script, Track, shard_name
from dataward.sim.simulation import Simulation
from dataward.stores.shard import Shard
from dataward.strategies.registry import DEFAULT, strategy_named
from dataward.strategies.strategy import Strategy

SHARDS = 3
SPANS = (1, 4)  # calls that a shard forgets: just the last one, or a few
LEASE_SECONDS = 10.0
FILE_BYTES = 10**6


# How many parts lie between the first task and the last. A fan has one more than there are nodes:
# then a part waits at a busy node, is given to another as a replica, and the loser is stopped. Of
# long parts there is one less than there are nodes: the idle node runs one of them too, as a spare.
SHAPES: dict[str, Callable[[int], int]] = {
    "diamond": lambda nodes: 2,
    "fan": lambda nodes: nodes + 1,
    "long": lambda nodes: nodes - 1,
}

# --- the worlds ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """One of the workflows below, on so many nodes of one core, by a strategy."""

    shape: str
    nodes: int
    strategy: str = DEFAULT

    def __str__(self) -> str:
        return f"{self.shape},{self.nodes}"

    @property
    def tracks(self) -> list[Track]:
        """Every fault that can happen here, the points aside."""
        nodes, spare = self.members, self.spare
        everywhere = (PointKind.CALL, PointKind.ANSWER, PointKind.MESSAGE, PointKind.DOUBLE)
        down = (PointKind.CRASH, PointKind.RESTART)
        return [
            *(Track(kind) for kind in everywhere),
            *(Track(kind, node) for kind in down for node in nodes),
            *(
                Track(PointKind.FORGET, shard_name(shard), span)
                for span in SPANS
                for shard in range(SHARDS)
            ),
            *(Track(PointKind.REMOVE, task) for task in _workflow(self.shape, self.nodes).task_ids),
            *(Track(PointKind.LEAVE, node) for node in nodes),
            Track(PointKind.JOIN, spare),
        ]

    @property
    def members(self) -> list[NodeId]:
        """The nodes that are there from the start."""
        return [machine.id for machine in _platform(self.nodes).machines[:-1]]

    @property
    def spare(self) -> NodeId:
        """The node that is not there, unless it joins."""
        return _platform(self.nodes).machines[-1].id


@cache
def _workflow(shape: str, nodes: int) -> Workflow:
    """first -> part0, part1, ... -> last; no two parts take equally long."""
    wf, least_seconds = WorkflowBuilder(shape), 30.0 if shape == "long" else 2.0
    parts = range(SHAPES[shape](nodes))
    for file in ["in", "out", *(f"to{i}" for i in parts), *(f"from{i}" for i in parts)]:
        wf.file(file, FILE_BYTES)
    wf.task("first", inputs=["in"], outputs=[f"to{i}" for i in parts], runtime_seconds=1.0)
    for i in parts:
        wf.task(
            f"part{i}", inputs=[f"to{i}"], outputs=[f"from{i}"], runtime_seconds=least_seconds + i
        )
    wf.task("last", inputs=[f"from{i}" for i in parts], outputs=["out"], runtime_seconds=1.0)
    return wf.build()


def worlds_by(strategy: str = DEFAULT) -> list[SmallWorld]:
    """All small worlds, in which nodes follow the strategy of this name."""
    return [SmallWorld(shape, nodes, strategy) for shape in SHAPES for nodes in (2, 3)]


@cache
def _platform(nodes: int) -> Platform:
    """So many nodes, and a spare one."""
    return replace(uniform_platform(nodes + 1, cores=1), store=StoreModel(shards=SHARDS))


@cache
def _strategy(name: str) -> Strategy:
    """The strategy of this name, with leases of about the length of the workflows."""
    strategy = strategy_named(name)
    settings = replace(
        strategy.settings,
        lease_seconds=LEASE_SECONDS,
        validation_seconds=LEASE_SECONDS / 2,
        staging_ahead=0,  # what is staged is not given away
    )
    return replace(strategy, settings=settings)


# --- one world -----------------------------------------------------------------------------------


Scripted = tuple[SmallWorld, tuple[PointFault, ...]]  # a world and its faults


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a world with these faults; ``problem`` is empty if every check passed.

    ``struck`` and ``ended`` are the points passed when the last fault struck and at the end.
    """

    world: SmallWorld
    faults: tuple[PointFault, ...]
    problem: str = ""
    struck: Points = field(default_factory=dict)
    ended: Points = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.world},{'+'.join(map(str, self.faults))}".rstrip(",")


def try_world(
    world: SmallWorld,
    faults: Sequence[PointFault] = (),
    make_shard: Callable[[int], Shard] = Shard,
) -> Tried:
    """What becomes of a world with these faults; any exception is its problem."""
    script = Script(faults)
    simulation = Simulation(
        _workflow(world.shape, world.nodes),
        _platform(world.nodes),
        _strategy(world.strategy),
        make_shard=make_shard,
        time_limit_seconds=PATIENCE * LEASE_SECONDS,
        script=script,
    )
    simulation.hold_back(world.spare)
    checker = checker_of(simulation)
    script.arrange(simulation, checker)
    problem = ""
    try:
        run_checked(simulation, checker, lambda: script.over_seconds)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        if script.missed:
            raise SettingError(f"{world} ends before {', '.join(map(str, script.missed))}")
    return Tried(world, tuple(faults), problem, script.struck, script.passed)


def parse_world(text: str, strategy: str = DEFAULT) -> Scripted:
    """The world and the faults that a text means, as `Tried` prints them, by this strategy.

    For example ``fan,3``, or ``diamond,2,answer@17+crash n1@40``.
    """
    shape, _, rest = text.partition(",")
    nodes, _, faults = rest.partition(",")
    worlds = worlds_by(strategy)
    world = next((w for w in worlds if str(w) == f"{shape},{nodes}"), None)
    if world is None:
        known = " ".join(map(str, worlds))
        raise SettingError(f"no small world begins {text!r}; there are {known}")
    found = tuple(_parse_fault(word, world) for word in faults.split("+") if word)
    if len({(fault.track.series, fault.point) for fault in found}) < len(found):
        raise SettingError(f"{text!r} has two faults at one point")
    return world, found


_FAULT = re.compile(r"(?P<kind>[a-z]+)(?: (?P<place>\w+))?@(?:(?P<first>\d+)-)?(?P<point>\d+)")


def _parse_fault(word: str, world: SmallWorld) -> PointFault:
    match = _FAULT.fullmatch(word.strip())
    if match is not None:
        point = int(match["point"])
        span = point - int(match["first"]) + 1 if match["first"] else 1
        for track in world.tracks:
            is_this = (track.kind.value, track.place) == (match["kind"], match["place"] or "")
            if is_this and point >= span >= 1 and (span == 1 or track.kind is PointKind.FORGET):
                return PointFault(replace(track, span=span), point)
    raise SettingError(
        f"{word!r} is no fault of {world}; write for example answer@17, crash n1@40 or"
        " forget s0@14-17"
    )
