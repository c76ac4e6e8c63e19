"""Our own strategy in whole simulated runs."""

from dataclasses import replace

from dataward import generate
from dataward.api.simulate import simulate
from dataward.model.events import WorkGiven
from dataward.model.platform import uniform_platform


def test_on_machines_of_known_speeds_nothing_moves_while_run_times_are_as_estimated() -> None:
    equal = uniform_platform(4)
    speeds = (1.0, 2.0, 0.5, 1.0)
    machines = tuple(
        replace(machine, speed=speed) for machine, speed in zip(equal.machines, speeds, strict=True)
    )

    report = simulate(
        generate("sipht", 300, seed=1),
        platform=replace(equal, machines=machines),
        strategy="dataward",
    )

    assert report.is_complete
    assert [event for event in report.events() if isinstance(event, WorkGiven)] == []
