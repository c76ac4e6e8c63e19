"""What a simulated trial of the machine's speed takes, and who pays for it."""

import pytest

from conformance.runner_cases import NODE, SECONDS, SimBench, run, start
from dataward.sim.parts import TRIAL_SECONDS


def test_a_trial_takes_longer_on_a_machine_that_is_slow_now() -> None:
    bench = SimBench(cores=1)
    usual = bench.run(bench.runner.trial())
    bench.machines[NODE].change_speed(5.0)

    slow = bench.run(bench.runner.trial())

    assert usual == pytest.approx(TRIAL_SECONDS)
    assert slow == pytest.approx(5 * TRIAL_SECONDS)


def test_the_next_task_pays_for_trials_that_were_made_while_all_cores_were_busy() -> None:
    bench = SimBench(cores=1)

    async def main() -> list[float]:
        first = start(bench, bench.task("a"))
        await bench.begun("a")
        await bench.runner.trial()
        await bench.runner.trial()
        await first.fiber.join()
        later = [start(bench, bench.task(id)) for id in ("b", "c")]
        return [(await each.fiber.join()).wall_seconds for each in (first, *later)]

    assert bench.run(main()) == pytest.approx([SECONDS, SECONDS + 2 * TRIAL_SECONDS, SECONDS])


def test_a_trial_on_an_idle_core_costs_no_task_anything() -> None:
    bench = SimBench(cores=1)
    bench.run(bench.runner.trial())

    result, _ = run(bench, bench.task("a"))

    assert result.wall_seconds == pytest.approx(SECONDS)
