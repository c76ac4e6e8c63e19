"""Event lists to test reports with: one small enough to do by hand, and simulated ones."""

from collections.abc import Sequence
from functools import cache

from dataward.generate import generate
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    Event,
    FileMoved,
    InputsStaged,
    NodeFacts,
    NodeJoined,
    NodeLost,
    RunEnded,
    RunStarted,
    TaskFinished,
    TaskTakenOver,
    WorkGiven,
)
from dataward.model.platform import uniform_platform
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

Crash = tuple[float, str, float]  # when, who, and when it is back


def began(at: float, task: str, node: str, *, replica: bool = False, count: int = 1) -> Event:
    return AttemptBegan(at, TaskId(task), f"{node}.1.{count}.{task}", node, replica, 1)


def staged(
    at: float, task: str, node: str, local: int = 0, moved: int = 0, count: int = 1
) -> Event:
    return InputsStaged(at, TaskId(task), f"{node}.1.{count}.{task}", node, local, moved)


def runs(at: float, task: str, node: str, count: int = 1) -> Event:
    attempt = f"{node}.1.{count}.{task}"
    return AttemptAdvanced(at, TaskId(task), attempt, node, TaskState.RUNNING)


def writes(at: float, task: str, node: str, count: int = 1) -> Event:
    attempt = f"{node}.1.{count}.{task}"
    return AttemptAdvanced(at, TaskId(task), attempt, node, TaskState.STAGE_OUT)


def ended(at: float, task: str, node: str, outcome: str = "won", count: int = 1) -> Event:
    return AttemptEnded(at, TaskId(task), f"{node}.1.{count}.{task}", node, AttemptOutcome(outcome))


def finished(at: float, task: str, node: str, state: TaskState = TaskState.COMPLETE) -> Event:
    return TaskFinished(at, TaskId(task), f"{node}.1.1.{task}", node, state, 1)


def a_start(tasks: int = 3, **cores: int) -> Event:
    nodes = tuple(NodeFacts(node, count, 1.0, "site") for node, count in cores.items())
    return RunStarted(0.0, "by hand", tasks, "adage", 7, nodes)


def a_run() -> list[Event]:
    """Ten seconds of a (two cores) and b (one core), three tasks, everything by hand.

    Task x stages for 2 s and runs for 3 on a; its replica on b stages for 1 and is cancelled after
    running for 2.5. Task y runs on a and fails after 1 s; its second attempt stages for 1, waits
    for 0.5 and runs for 4. Task z has run for 2 s when b crashes, is taken over, and runs for 2 on
    a. Node b is down from 8 on.
    """
    return [
        a_start(a=2, b=1),
        NodeJoined(0.0, "a", 1),
        NodeJoined(0.0, "b", 1),
        began(0.0, "x", "a"),
        began(0.5, "x", "b", replica=True),
        WorkGiven(0.5, "a", "b", (TaskId("x"),), (("b", 0.0),)),
        FileMoved(1.0, FileId("f"), "origin", "b", 100, 0.5),
        staged(1.5, "x", "b", 0, 100),
        runs(1.5, "x", "b"),
        FileMoved(1.8, FileId("f"), "origin", "a", 100, 1.8),
        staged(2.0, "x", "a", 20, 100),
        runs(2.0, "x", "a"),
        began(2.0, "y", "a"),
        staged(2.0, "y", "a", 30, 0),
        runs(2.0, "y", "a"),
        ended(3.0, "y", "a", "failed"),
        began(3.0, "y", "a", count=2),
        FileMoved(3.9, FileId("g"), "b", "a", 40, 0.5),
        staged(4.0, "y", "a", 10, 40, count=2),
        ended(4.0, "x", "b", "cancelled"),
        runs(4.5, "y", "a", count=2),
        writes(5.0, "x", "a"),
        ended(5.5, "x", "a"),
        finished(5.5, "x", "a"),
        began(6.0, "z", "b"),
        staged(6.0, "z", "b"),
        runs(6.0, "z", "b"),
        NodeLost(8.0, "b"),
        TaskTakenOver(8.0, TaskId("z"), "b", 1),
        began(8.0, "z", "a"),
        staged(8.0, "z", "a"),
        runs(8.0, "z", "a"),
        writes(8.5, "y", "a", count=2),
        ended(9.0, "y", "a", count=2),
        finished(9.0, "y", "a"),
        writes(10.0, "z", "a"),
        ended(10.0, "z", "a"),
        finished(10.0, "z", "a"),
        RunEnded(10.0, 3, 0, 12, 34),
    ]


@cache
def simulated(
    shape: str = "montage", tasks: int = 60, nodes: int = 4, crashes: Sequence[Crash] = ()
) -> tuple[Event, ...]:
    events: list[Event] = []
    simulation = Simulation(
        generate(shape, tasks, 1),
        uniform_platform(nodes),
        STRATEGIES["adage"],
        seed=1,
        sinks=[events.append],
        time_limit_seconds=1e9,
    )
    for at, node, back in crashes:
        simulation.kernel.call_at(at, simulation.crash, node)
        simulation.kernel.call_at(back, simulation.boot, node)
    simulation.run()
    return tuple(events)
