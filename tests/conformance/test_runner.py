"""What `Runner` promises, held against real runner processes and the simulated runner."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from conformance.both_worlds import WORLDS, as_input
from conformance.runner_cases import AGES_SECONDS, Bench, LiveBench, SimBench, a_bench, run, start
from dataward.live.runner_settings import RunnerSettings
from dataward.model.operations import OutputFile
from dataward.model.states import FailureCause
from dataward.world import FiberCancelled, InputLost, RunResult

RED = (AssertionError, pytest.fail.Exception, InputLost)  # what a test of this suite ends with


@pytest.fixture(params=WORLDS)
def bench(request) -> Bench:
    """One core."""
    return a_bench(request.param, request)


@pytest.fixture(params=WORLDS)
def two_cores(request) -> Bench:
    return a_bench(request.param, request, cores=2)


def store(bench: Bench, task: str, **contents: bytes) -> tuple[OutputFile, ...]:
    return bench.run(bench.disks["n0"].store_outputs(bench.write("n0", task, **contents)))


# --- how a task ends -----------------------------------------------------------------------------


def test_a_task_that_succeeds_has_no_error_and_ended_after_it_began(bench):
    result, starts = run(bench, bench.task("t"))

    assert (result.error, result.exit_code, result.signal) == ("", 0, 0)
    assert result.cause is FailureCause.TASK
    assert len(starts) == 1
    assert starts[0] <= result.ended_at <= bench.kernel.now()
    assert 0 < result.wall_seconds <= result.ended_at - starts[0]
    assert result.cpu_seconds >= 0
    assert bench.executed() == ["t"]


def test_a_task_that_fails_has_an_error_and_an_exit_code_of_its_own_making(bench):
    result, starts = run(bench, bench.task("t", fails=True))

    assert result.error
    assert result.exit_code != 0
    assert result.cause is FailureCause.TASK
    assert len(starts) == 1
    assert starts[0] <= result.ended_at
    assert bench.executed() == ["t"]


def test_a_task_after_one_that_failed_is_none_the_worse(bench):
    run(bench, bench.task("t", fails=True))

    result, _ = run(bench, bench.task("u"))

    assert result.error == ""


def test_what_a_task_wrote_can_be_stored(bench):
    task = bench.task("t", output="a")
    run(bench, task)

    (stored,) = bench.run(bench.disks["n0"].store_outputs(task))

    content = b"written by t\n"
    assert stored == OutputFile("a", len(content), bench.digest("t", "a", content))
    (file,) = bench.disks["n0"].files()
    assert bench.is_readable("n0", file)


def test_a_task_reads_what_another_wrote(bench):
    (stored,) = store(bench, "maker", a=b"one")

    result, _ = run(bench, bench.task("t", inputs=[as_input(stored, "maker")]))

    assert result.error == ""


# --- the start -----------------------------------------------------------------------------------


def test_a_start_is_told_while_the_task_runs(bench):
    async def main():
        one = start(bench, bench.task("t", stays=True))
        await bench.begun("t")
        told = list(one.starts)
        await bench.let_go("t")
        await one.fiber.join()
        return told, one.starts

    during, after = bench.run(main())

    assert len(during) == 1
    assert after == during


def test_every_start_is_told_once_and_after_the_end_of_whoever_had_the_core(bench):
    async def main():
        runs = [start(bench, bench.task(f"t{i}")) for i in range(6)]
        return [(await one.fiber.join(), one.starts) for one in runs]

    ends = bench.run(main())

    assert [len(starts) for _, starts in ends] == [1] * 6
    spans = sorted((starts[0], result.ended_at) for result, starts in ends)
    assert all(begun <= ended for begun, ended in spans)
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))
    assert sorted(bench.executed()) == [f"t{i}" for i in range(6)]


# --- turns ---------------------------------------------------------------------------------------


def test_there_run_as_many_at_once_as_there_are_cores_and_no_more(two_cores):
    bench = two_cores

    async def main():
        stayers = [start(bench, bench.task(id, stays=True)) for id in ("a", "b")]
        for id in ("a", "b"):
            await bench.begun(id)
        waiting = start(bench, bench.task("c"))
        await bench.kernel.sleep(0)
        at_first = bench.executed().copy(), waiting.has_begun
        await bench.let_go("a")
        result = await waiting.fiber.join()
        await bench.let_go("b")
        for one in stayers:
            await one.fiber.join()
        return at_first, result

    (executed, has_begun), result = bench.run(main())

    assert sorted(executed) == ["a", "b"]
    assert not has_begun
    assert result.error == ""
    assert sorted(bench.executed()) == ["a", "b", "c"]


def test_a_task_that_needs_all_cores_has_them_for_itself(two_cores):
    bench = two_cores

    async def main():
        wide = start(bench, bench.task("wide", cores=2, stays=True))
        await bench.begun("wide")
        narrow = start(bench, bench.task("narrow"))
        await bench.kernel.sleep(0)
        at_first = narrow.has_begun
        await bench.let_go("wide")
        return at_first, (await wide.fiber.join()).error, (await narrow.fiber.join()).error

    assert bench.run(main()) == (False, "", "")


def test_a_task_that_needs_more_cores_than_there_are_runs_all_the_same(bench):
    result, starts = run(bench, bench.task("t", cores=5))

    assert result.error == ""
    assert len(starts) == 1


# --- cancelling ----------------------------------------------------------------------------------


def test_a_trial_waits_for_no_core(bench):
    async def main() -> float:
        stays = start(bench, bench.task("t", stays=True))
        await bench.begun("t")
        seconds = await bench.runner.trial()
        assert stays.has_begun
        assert not stays.fiber.done()
        await bench.let_go("t")
        await stays.fiber.join()
        return seconds

    assert bench.run(main()) > 0


def test_cancelling_ends_the_execution_and_frees_the_core(bench):
    async def main():
        cancelled = start(bench, bench.task("t", stays=True))
        await bench.begun("t")
        at = bench.kernel.now()
        cancelled.fiber.cancel()
        with pytest.raises(FiberCancelled):
            await cancelled.fiber.join()
        following = start(bench, bench.task("u"))
        result = await following.fiber.join()
        return at, result, following.starts

    cancelled_at, result, starts = bench.run(main())

    assert result.error == ""
    assert len(starts) == 1
    assert cancelled_at <= starts[0] < cancelled_at + AGES_SECONDS / 2
    assert not bench.is_executing("t")


def test_one_that_waited_behind_a_cancelled_one_gets_its_turn_and_is_told_once(bench):
    async def main():
        cancelled = start(bench, bench.task("t", stays=True))
        await bench.begun("t")
        following = start(bench, bench.task("u"))
        await bench.kernel.sleep(0)
        at = bench.kernel.now()
        cancelled.fiber.cancel()
        result = await following.fiber.join()
        return at, result, following.starts

    cancelled_at, result, starts = bench.run(main())

    assert result.error == ""
    assert len(starts) == 1
    assert starts[0] <= result.ended_at < cancelled_at + AGES_SECONDS / 2


def test_one_that_is_cancelled_before_its_turn_is_never_executed(bench):
    async def main():
        first = start(bench, bench.task("first", stays=True))
        await bench.begun("first")
        cancelled, last = start(bench, bench.task("cancelled")), start(bench, bench.task("last"))
        await bench.kernel.sleep(0)
        cancelled.fiber.cancel()
        with pytest.raises(FiberCancelled):
            await cancelled.fiber.join()
        await bench.let_go("first")
        await first.fiber.join()
        await last.fiber.join()
        return cancelled.starts, last.starts

    told_of_cancelled, told_of_last = bench.run(main())

    assert told_of_cancelled == []
    assert len(told_of_last) == 1
    assert bench.executed() == ["first", "last"]


# --- inputs --------------------------------------------------------------------------------------


def test_with_an_input_gone_unnoticed_nothing_is_executed(bench):
    stored = store(bench, "maker", a=b"one", b=b"two")
    task = bench.task("t", inputs=[as_input(file, "maker") for file in stored])
    bench.lose_unnoticed("n0", "b")

    with pytest.raises(InputLost) as lost:
        run(bench, task)

    assert lost.value.files == (task.inputs[1],)
    assert bench.executed() == []


def test_all_inputs_that_the_disk_knows_to_be_gone_are_told_at_once(bench):
    stored = store(bench, "maker", a=b"one", b=b"two", c=b"three")
    task = bench.task("t", inputs=[as_input(file, "maker") for file in stored])
    bench.lose("n0", "a")
    bench.lose("n0", "c")

    with pytest.raises(InputLost) as lost:
        run(bench, task)

    assert lost.value.files == (task.inputs[0], task.inputs[2])
    assert bench.executed() == []


def test_an_input_that_goes_while_the_task_waits_for_its_turn_is_lost_to_it(bench):
    (stored,) = store(bench, "maker", a=b"one")
    first = bench.task("first", stays=True)
    task = bench.task("t", inputs=[as_input(stored, "maker")])

    async def main():
        holding = start(bench, first)
        await bench.begun("first")
        waiting = start(bench, task)
        await bench.kernel.sleep(0)
        bench.lose_unnoticed("n0", "a")
        ending = bench.kernel.spawn(bench.let_go("first"))
        try:
            await waiting.fiber.join()
        finally:
            await ending.join()
            await holding.fiber.join()

    with pytest.raises(InputLost) as lost:
        bench.run(main())

    assert lost.value.files == task.inputs
    assert bench.executed() == ["first"]


def test_after_a_lost_input_the_core_is_free(bench):
    (stored,) = store(bench, "maker", a=b"one")
    task = bench.task("t", inputs=[as_input(stored, "maker")])
    bench.lose_unnoticed("n0", "a")
    with pytest.raises(InputLost):
        run(bench, task)

    result, starts = run(bench, bench.task("u"))

    assert result.error == ""
    assert len(starts) == 1


def test_an_input_that_was_made_again_serves(bench):
    (stored,) = store(bench, "maker", a=b"one")
    task = bench.task("t", inputs=[as_input(stored, "maker")])
    bench.lose_unnoticed("n0", "a")
    with pytest.raises(InputLost):
        run(bench, task)

    store(bench, "maker", a=b"one")

    assert run(bench, task)[0].error == ""


# --- limits, which only real tasks have -----------------------------------------------------------


def test_a_task_that_runs_too_long_is_ended_and_told_as_such(request):
    settings = RunnerSettings(time_limit_seconds=0.1, grace_seconds=0.1)
    bench = a_bench("live", request, settings=settings)

    async def main():
        one = start(bench, bench.task("t", stays=True))
        await bench.begun("t")
        return await one.fiber.join()

    result = bench.run(main())

    assert "time limit" in result.error
    assert result.cause is FailureCause.TIME_LIMIT
    assert not bench.is_executing("t")
    assert run(bench, bench.task("u"))[0].error == ""


def test_a_task_that_uses_too_much_memory_is_ended_and_told_as_such(request):
    settings = RunnerSettings(memory_ratio_max=1.0, memory_bytes_spare=64 << 20, grace_seconds=0.1)
    bench = a_bench("live", request, settings=settings)
    task = bench.task("t", stays=True, memory_bytes=1)
    never = bench.directory / "t.go"
    take = f"kept = bytearray(b'x') * (200 << 20); open({str(never)!r}).read()"
    result, _ = run(bench, _with_command(task, "python3", "-c", take))

    assert "of memory" in result.error
    assert result.cause is FailureCause.TASK


def _with_command(task, *command: str):
    return msgspec.structs.replace(task, command=command)


# --- the suite itself ----------------------------------------------------------------------------


class BreakOne:
    """Runners with one promise broken, of either kind."""

    @staticmethod
    def tells_a_start_twice(runner):
        async def run(self, task, attempt, on_start):
            def tell_twice(at):
                on_start(at)
                on_start(at)

            return await runner.run(self, task, attempt, tell_twice)

        return {"run": run}

    @staticmethod
    def tells_no_start(runner):
        async def run(self, task, attempt, on_start):
            return await runner.run(self, task, attempt, lambda at: None)

        return {"run": run}

    @staticmethod
    def tells_a_start_at_the_end(runner):
        async def run(self, task, attempt, on_start):
            told = []
            result = await runner.run(self, task, attempt, told.append)
            on_start(told[0])
            return result

        return {"run": run}

    @staticmethod
    def tells_a_start_before_its_turn(runner):
        async def run(self, task, attempt, on_start):
            on_start(0.0)
            return await runner.run(self, task, attempt, lambda at: None)

        return {"run": run}

    @staticmethod
    def ends_before_it_begins(runner):
        async def run(self, task, attempt, on_start):
            result = await runner.run(self, task, attempt, on_start)
            return result._replace(ended_at=-1.0)

        return {"run": run}

    @staticmethod
    def takes_failures_for_success(runner):
        async def run(self, task, attempt, on_start):
            result = await runner.run(self, task, attempt, on_start)
            return result._replace(error="", exit_code=0)

        return {"run": run}

    @staticmethod
    def does_without_inputs(runner):
        async def run(self, task, attempt, on_start):
            try:
                return await runner.run(self, task, attempt, on_start)
            except InputLost:
                return RunResult(0.0)

        return {"run": run}

    @staticmethod
    def misses_every_input(runner):
        async def run(self, task, attempt, on_start):
            try:
                return await runner.run(self, task, attempt, on_start)
            except InputLost as lost:
                raise InputLost(task.inputs) from lost

        return {"run": run}

    @staticmethod
    def executes_nothing(runner):
        async def run(self, task, attempt, on_start):
            on_start(0.0)
            return RunResult(0.0, wall_seconds=0.0)

        return {"run": run}


class BreakSimulated:
    """Runners that would leave real tests waiting."""

    @staticmethod
    def goes_on_when_cancelled(runner):
        async def run(self, task, attempt, on_start):
            fiber = self.machine.kernel.spawn(runner.run(self, task, attempt, on_start))
            return await fiber.join()

        return {"run": run}

    @staticmethod
    def keeps_the_core_of_a_cancelled_one(runner):
        async def run(self, task, attempt, on_start):
            try:
                return await runner.run(self, task, attempt, on_start)
            except BaseException:
                self._cores.free -= 1
                raise

        return {"run": run}

    @staticmethod
    def takes_no_turns(runner):
        def __post_init__(self):  # noqa: N807
            runner.__post_init__(self)
            self._cores.free = self._cores.total = 100

        return {"__post_init__": __post_init__}


def a_broken_bench(name: str, request, breaking: Callable, cores: int = 1) -> Bench:
    kept = LiveBench.runner_type if name == "live" else SimBench.runner_type
    broken = type("Broken", (kept,), breaking(kept))
    return a_bench(name, request, cores, runner_type=broken)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(
    ("breaking", "check"),
    [
        (
            BreakOne.tells_a_start_twice,
            test_a_task_that_succeeds_has_no_error_and_ended_after_it_began,
        ),
        (
            BreakOne.tells_no_start,
            test_a_task_that_succeeds_has_no_error_and_ended_after_it_began,
        ),
        (BreakOne.tells_a_start_at_the_end, test_a_start_is_told_while_the_task_runs),
        (
            BreakOne.tells_a_start_before_its_turn,
            test_every_start_is_told_once_and_after_the_end_of_whoever_had_the_core,
        ),
        (
            BreakOne.ends_before_it_begins,
            test_a_task_that_succeeds_has_no_error_and_ended_after_it_began,
        ),
        (
            BreakOne.takes_failures_for_success,
            test_a_task_that_fails_has_an_error_and_an_exit_code_of_its_own_making,
        ),
        (BreakOne.does_without_inputs, test_with_an_input_gone_unnoticed_nothing_is_executed),
        (BreakOne.misses_every_input, test_with_an_input_gone_unnoticed_nothing_is_executed),
        (
            BreakOne.executes_nothing,
            test_a_task_that_succeeds_has_no_error_and_ended_after_it_began,
        ),
    ],
)
def test_the_suite_notices_a_runner_that(name, request, breaking: Callable, check: Callable):
    bench = a_broken_bench(name, request, breaking)

    with pytest.raises(RED):
        check(bench)


@pytest.mark.parametrize(
    ("breaking", "check"),
    [
        (
            BreakSimulated.goes_on_when_cancelled,
            test_cancelling_ends_the_execution_and_frees_the_core,
        ),
        (
            BreakSimulated.keeps_the_core_of_a_cancelled_one,
            test_cancelling_ends_the_execution_and_frees_the_core,
        ),
        (
            BreakSimulated.keeps_the_core_of_a_cancelled_one,
            test_after_a_lost_input_the_core_is_free,
        ),
        (
            BreakSimulated.takes_no_turns,
            test_every_start_is_told_once_and_after_the_end_of_whoever_had_the_core,
        ),
    ],
)
def test_the_suite_notices_a_simulated_runner_that(request, breaking: Callable, check: Callable):
    bench = a_broken_bench("simulated", request, breaking)

    with pytest.raises(RED):
        check(bench)


def test_the_suite_notices_a_runner_with_more_cores_than_it_should_have(request):
    bench = a_bench("live", request, cores=3)

    with pytest.raises(AssertionError):
        test_a_task_that_needs_all_cores_has_them_for_itself(bench)
