"""A workflow run for real and simulated: one list of events tells of both."""

from pathlib import Path

from dataward import read_workflow, write_workflow
from dataward.generate import generate, make_runnable, write_inputs
from dataward.model.events import AttemptAdvanced, RunEnded, RunStarted
from dataward.model.platform import uniform_platform
from dataward.reports.event_file import EventFileReader, EventFileWriter
from dataward.reports.measured import measured_workflow
from dataward.reports.run_summary import RunTally
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

TASKS = 30


def lives(path: Path) -> dict[str, list[str]]:
    """What happens to each task, in order: the names of the events that are about it."""
    found: dict[str, list[str]] = {}
    for event in EventFileReader(path):
        task = getattr(event, "task", None)
        if task is not None and type(event).__name__ != "TaskPlaced":
            name = type(event).__name__
            if isinstance(event, AttemptAdvanced):
                name += f" {event.state.value}"
            found.setdefault(task, []).append(name)
    return found


def simulate(path: Path, events: Path) -> None:
    platform = uniform_platform(1, cores=2)
    with EventFileWriter(events) as file:
        Simulation(read_workflow(path), platform, STRATEGIES["adage"], sinks=[file.add]).run()


def test_a_task_has_the_same_life_for_real_and_simulated(run):
    workflow = make_runnable(generate("montage", TASKS, seed=3), time_scale=0, data_scale=1e-5)
    write_workflow(workflow, Path("w.json"))
    write_inputs(workflow, Path("w.inputs"))

    run(Path("w.json"), "--events", "real.events")
    simulate(Path("w.json"), Path("simulated.events"))

    real, simulated = lives(Path("real.events")), lives(Path("simulated.events"))
    assert len(real) == TASKS
    assert real == simulated


def test_both_lists_begin_and_end_alike_and_add_up(run):
    workflow = make_runnable(generate("fan-in", TASKS, seed=3), time_scale=0, data_scale=1e-5)
    write_workflow(workflow, Path("w.json"))
    write_inputs(workflow, Path("w.inputs"))

    run(Path("w.json"), "--events", "real.events")
    simulate(Path("w.json"), Path("simulated.events"))

    for path in ("real.events", "simulated.events", "w.run/1/events"):
        events = list(EventFileReader(Path(path)))
        assert isinstance(events[0], RunStarted)
        assert isinstance(events[-1], RunEnded)
        assert events[-1].complete == TASKS
        tally = RunTally()
        for event in events:
            tally.add(event)
        assert tally.summary().complete == TASKS
        assert tally.summary().attempts == TASKS


def test_what_was_measured_can_be_simulated(run):
    workflow = make_runnable(generate("pipeline", TASKS, seed=3), time_scale=0, data_scale=1e-5)
    write_workflow(workflow, Path("w.json"))
    write_inputs(workflow, Path("w.inputs"))
    run(Path("w.json"))

    measured = measured_workflow(workflow, [EventFileReader(Path("w.run/1/events"))])
    write_workflow(measured, Path("measured.json"))
    simulate(Path("measured.json"), Path("simulated.events"))

    assert (measured.runtime_seconds > 0).all()
    assert list(EventFileReader(Path("simulated.events")))[-1].complete == TASKS
