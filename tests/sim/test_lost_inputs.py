"""An input that nobody has any more ends its tasks, after a while and with a sentence."""

from typing import Any

from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptEnded, TaskFinished
from dataward.model.platform import Placement, Platform
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import Workflow
from dataward.node.settings import NodeSettings
from dataward.sim.simulation import Simulation
from sim.small_runs import GB, Run, all_on, cheap, machines, simulate

PATIENCE_SECONDS = NodeSettings().lost_input_seconds
CUT_OFF = frozenset({"origin"})


def a_chain() -> Workflow:
    """a reads the workflow's input, b what a made, c what b made."""
    wf = WorkflowBuilder("chain")
    wf.file("in", 1 * GB)  # which takes a while to move
    for name in ("a.out", "b.out", "c.out"):
        wf.file(name, 1000)
    wf.task("a", inputs=["in"], outputs=["a.out"], runtime_seconds=10)
    wf.task("b", inputs=["a.out"], outputs=["b.out"], runtime_seconds=1000)
    wf.task("c", inputs=["b.out"], outputs=["c.out"], runtime_seconds=10)
    return wf.build()


def a_platform() -> Platform:
    """The input is at one node of two."""
    return cheap(*machines(2), placement=Placement.DEALT, copies=1)


def holder(simulation: Simulation) -> str:
    return next(n for n, m in simulation.machines.items() if "in" in m.stored.files)


def crash_at(seconds: float, *, back_after: float | None = None) -> Any:
    """The origin is cut off, and the node with the input goes down so long after the start."""

    def meddle(simulation: Simulation) -> None:
        def strike() -> None:
            node = holder(simulation)
            simulation.crash(node)
            if back_after is not None:
                later = simulation.kernel.now() + back_after
                simulation.kernel.call_at(later, simulation.boot, node)

        simulation.interference.cuts.append(CUT_OFF)
        simulation.kernel.call_at(seconds, strike)

    return meddle


def reasons(run: Run) -> dict[str, str]:
    ends = [e for e in run.all(AttemptEnded) if e.outcome is AttemptOutcome.FAILED]
    return {end.task: end.reason for end in ends}


def test_an_input_lost_everywhere_ends_the_run_and_says_which_and_who_had_it() -> None:
    run = simulate(a_chain(), a_platform(), all_on(1), meddle=crash_at(0.5))

    assert run.outcome is not None
    assert (run.outcome.complete, run.outcome.failed) == (0, 3)
    assert PATIENCE_SECONDS < run.makespan < PATIENCE_SECONDS + 300
    (sentence,) = reasons(run).values()
    assert "input 'in' is lost: nobody has served it for" in sentence
    assert "n0 had it" in sentence


def test_a_node_that_comes_back_in_time_is_waited_for() -> None:
    back = crash_at(0.5, back_after=PATIENCE_SECONDS - 200)

    run = simulate(a_chain(), a_platform(), all_on(1), meddle=back)

    assert run.outcome is not None
    assert (run.outcome.complete, run.outcome.failed) == (3, 0)


def test_an_intermediate_that_cannot_be_made_again_ends_what_needs_it() -> None:
    def lose_all(simulation: Simulation) -> None:
        simulation.interference.cuts.append(CUT_OFF)

        def strike() -> None:
            for node in simulation.nodes:  # b runs, and has read its input
                for file in ("in", "a.out"):
                    simulation.machines[node].stored.files.pop(file, None)
                simulation.crash(node)
                simulation.kernel.call_at(501.0, simulation.boot, node)

        simulation.kernel.call_at(500.0, strike)

    run = simulate(a_chain(), a_platform(), all_on(1), meddle=lose_all)

    ends = {e.task: e.state for e in run.all(TaskFinished) if e.at > 500}
    assert ends == dict.fromkeys(("a", "b", "c"), TaskState.FAILED)
    assert list(reasons(run)) == ["a"]
    assert "input 'in' is lost" in reasons(run)["a"]


def test_many_tasks_that_read_a_lost_input_end_together() -> None:
    wf = WorkflowBuilder("many")
    wf.file("in", 1 * GB)
    for number in range(40):
        wf.task(f"t{number}", inputs=["in"], runtime_seconds=10)

    run = simulate(
        wf.build(), a_platform(), all_on(1), meddle=crash_at(0.5), time_limit_seconds=1e5
    )

    assert run.outcome is not None
    assert run.outcome.failed == 40
    assert run.makespan < PATIENCE_SECONDS + 300
