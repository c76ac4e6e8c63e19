"""What `Kernel` promises, held against every kernel."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from dataward.kernel import (
    AsyncioKernel,
    Cancelled,
    FiberCancelled,
    Kernel,
    TimedOut,
    VirtualKernel,
    with_timeout,
)

MOMENT = 0.002
LONG = 1e9

KERNELS: dict[str, Callable[[], Kernel]] = {
    "virtual": VirtualKernel,
    "virtual, in steps": lambda: VirtualKernel(on_step=lambda: None),
    "asyncio": lambda: AsyncioKernel(asyncio.new_event_loop),
    "uvloop": AsyncioKernel,
}


@pytest.fixture(params=list(KERNELS))
def kernel(request):
    yield KERNELS[request.param]()
    # A coroutine thrown away half-way would complain when collected, in another test.
    gc.collect()


class Log(list):
    """What happened, in order."""

    async def sleeper(self, kernel, name, seconds=LONG):
        """Sleeps, and notes how that ended."""
        self.append(f"{name} starts")
        try:
            await kernel.sleep(seconds)
            self.append(f"{name} wakes")
        except Cancelled:
            self.append(f"{name} cancelled")
            raise

    async def getter(self, queue, name, timeout_seconds=None):
        try:
            item = await queue.get(timeout_seconds)
            self.append(f"{name} got {item}")
        except TimedOut:
            self.append(f"{name} timed out")

    async def waiter(self, event, name, timeout_seconds=None):
        answer = await event.wait(timeout_seconds)
        self.append(f"{name} {answer}")


async def settle(kernel):
    """Let everything that is ready run, and what that makes ready, a few times over."""
    for _ in range(5):
        await kernel.sleep(0)


async def broken(error):
    raise error


# Running and order.


def test_run_gives_back_what_main_returned(kernel):
    async def main():
        return 42

    assert kernel.run(main()) == 42


def test_run_raises_what_main_raised(kernel):
    with pytest.raises(LookupError, match="lost"):
        kernel.run(broken(LookupError("lost")))


def test_fibers_start_in_spawn_order_after_the_spawner_waits(kernel):
    log = Log()

    async def main():
        for name in "abc":
            kernel.spawn(log.sleeper(kernel, name, 0), name)
        log.append("spawned")
        await settle(kernel)

    kernel.run(main())

    assert log[:4] == ["spawned", "a starts", "b starts", "c starts"]


def test_a_short_sleep_does_not_wait_for_a_long_one(kernel):
    log = Log()

    async def main():
        kernel.spawn(log.sleeper(kernel, "long"))
        await kernel.spawn(log.sleeper(kernel, "short", MOMENT)).join()

    kernel.run(main())

    assert log == ["long starts", "short starts", "short wakes", "long cancelled"]


@pytest.mark.parametrize("seconds", [0, 0.0, -1])
def test_a_sleep_of_nothing_lets_others_run_first(kernel, seconds):
    log = Log()

    async def main():
        kernel.spawn(log.sleeper(kernel, "other", 0))
        await kernel.sleep(seconds)
        log.append("main")

    kernel.run(main())

    assert log[:2] == ["other starts", "main"]


def test_time_never_runs_backwards(kernel):
    async def main():
        before = kernel.now()
        await kernel.sleep(MOMENT)
        return before, kernel.now()

    before, after = kernel.run(main())

    assert after >= before


def test_a_fiber_without_a_name_is_called_by_its_coroutine(kernel):
    async def weigh():
        return kernel.spawn(settle(kernel)).name, kernel.spawn(settle(kernel), "balance").name

    assert kernel.run(weigh()) == ("settle", "balance")


# Joining.


def test_join_gives_back_what_the_fiber_returned_before_or_after_it_is_done(kernel):
    async def seven():
        await kernel.sleep(0)
        return 7

    async def main():
        fiber = kernel.spawn(seven())
        first = await fiber.join()
        return first, fiber.done(), await fiber.join()

    assert kernel.run(main()) == (7, True, 7)


def test_all_joiners_are_told_in_the_order_they_came(kernel):
    log = Log()

    async def joiner(fiber, name):
        log.append(f"{name} {await fiber.join()}")

    async def main():
        gate = kernel.flag()
        fiber = kernel.spawn(pass_on(gate))
        for name in "abc":
            kernel.spawn(joiner(fiber, name))
        await settle(kernel)
        gate.set()
        await settle(kernel)

    async def pass_on(gate):
        return await gate.wait()

    kernel.run(main())

    assert log == ["a True", "b True", "c True"]


def test_join_raises_what_the_fiber_raised_to_every_joiner(kernel):
    log = Log()

    async def joiner(fiber):
        try:
            await fiber.join()
        except LookupError as error:
            log.append(str(error))

    async def main():
        fiber = kernel.spawn(broken(LookupError("lost")))
        # The joiners wait before the fiber fails: it is spawned first but they are told of it.
        kernel.spawn(joiner(fiber))
        await joiner(fiber)
        await settle(kernel)

    kernel.run(main())

    assert log == ["lost", "lost"]


def test_join_times_out_and_the_fiber_goes_on(kernel):
    async def main():
        gate = kernel.flag()
        fiber = kernel.spawn(Log().waiter(gate, "fiber"))
        with pytest.raises(TimedOut):
            await fiber.join(MOMENT)
        undone = not fiber.done()
        gate.set()
        await fiber.join()
        return undone

    assert kernel.run(main())


def test_joining_for_no_time_answers_at_once(kernel):
    async def main():
        fiber = kernel.spawn(settle(kernel))
        with pytest.raises(TimedOut):
            await fiber.join(0)
        await fiber.join()
        await fiber.join(0)

    kernel.run(main())


def test_a_cancelled_fiber_is_not_mistaken_for_a_cancelled_joiner(kernel):
    async def main():
        fiber = kernel.spawn(Log().sleeper(kernel, "a"), "a")
        await settle(kernel)
        fiber.cancel()
        with pytest.raises(FiberCancelled, match="fiber a was cancelled"):
            await fiber.join()

    kernel.run(main())


# Cancelling.


def test_a_fiber_cancelled_before_it_starts_never_runs(kernel):
    log = Log()

    async def main():
        fiber = kernel.spawn(log.sleeper(kernel, "a"))
        fiber.cancel()
        assert fiber.done()
        with pytest.raises(FiberCancelled):
            await fiber.join()
        await settle(kernel)

    kernel.run(main())

    assert log == []


def test_a_sleeping_fiber_is_cancelled_at_its_await(kernel):
    log = Log()

    async def main():
        fiber = kernel.spawn(log.sleeper(kernel, "a"))
        await settle(kernel)
        fiber.cancel()
        log.append("asked")
        await settle(kernel)
        assert fiber.done()

    kernel.run(main())

    assert log == ["a starts", "asked", "a cancelled"]


def test_fibers_are_cancelled_while_waiting_on_an_event_a_queue_or_a_join(kernel):
    log = Log()

    async def noting(name, awaitable):
        try:
            await awaitable
        except Cancelled:
            log.append(f"{name} cancelled")
            raise

    async def main():
        event, queue = kernel.flag(), kernel.queue()
        held = kernel.spawn(settle_when(event))
        fibers = [
            kernel.spawn(noting("event", event.wait())),
            kernel.spawn(noting("timed event", event.wait(LONG))),
            kernel.spawn(noting("queue", queue.get())),
            kernel.spawn(noting("timed queue", queue.get(LONG))),
            kernel.spawn(noting("join", held.join())),
            kernel.spawn(noting("timed join", held.join(LONG))),
        ]
        await settle(kernel)
        for fiber in fibers:
            fiber.cancel()
        await settle(kernel)
        assert all(fiber.done() for fiber in fibers)
        assert not held.done()
        # What they waited for still works without them.
        event.set()
        queue.put(1)
        await held.join()
        return len(queue)

    async def settle_when(event):
        await event.wait()

    assert kernel.run(main()) == 1
    kinds = ("event", "timed event", "queue", "timed queue", "join", "timed join")
    assert log == [f"{kind} cancelled" for kind in kinds]


def test_cancelling_twice_does_not_cut_a_finally_short(kernel):
    log = Log()

    async def tidy():
        try:
            await kernel.sleep(LONG)
        finally:
            await kernel.sleep(MOMENT)
            log.append("tidied")

    async def main():
        fiber = kernel.spawn(tidy())
        await settle(kernel)
        fiber.cancel()
        fiber.cancel()
        await kernel.sleep(0)
        fiber.cancel()
        with pytest.raises(FiberCancelled):
            await fiber.join()

    kernel.run(main())

    assert log == ["tidied"]


def test_a_finally_that_waits_on_a_queue_is_served_after_cancellation(kernel):
    log = Log()

    async def tidy(queue):
        try:
            await queue.get()
        finally:
            log.append(await queue.get())

    async def main():
        queue = kernel.queue()
        fiber = kernel.spawn(tidy(queue))
        await settle(kernel)
        fiber.cancel()
        await settle(kernel)
        queue.put("last words")
        with pytest.raises(FiberCancelled):
            await fiber.join()

    kernel.run(main())

    assert log == ["last words"]


def test_a_fiber_may_survive_its_cancellation(kernel):
    async def stubborn():
        try:
            await kernel.sleep(LONG)
        except Cancelled:
            await kernel.sleep(0)
            return "alive"

    async def main():
        fiber = kernel.spawn(stubborn())
        await settle(kernel)
        fiber.cancel()
        return await fiber.join()

    assert kernel.run(main()) == "alive"


def test_a_fiber_that_cancels_itself_stops_at_its_next_wait(kernel):
    log = Log()

    async def quitter(me, pause):
        (await me.get()).cancel()
        log.append("asked")
        await kernel.sleep(pause)
        log.append("not reached")

    async def main():
        for pause in (0, LONG):
            me = kernel.queue()
            fiber = kernel.spawn(quitter(me, pause))
            me.put(fiber)
            with pytest.raises(FiberCancelled):
                await fiber.join()

    kernel.run(main())

    assert log == ["asked", "asked"]


def test_cancelling_a_fiber_that_is_done_does_nothing(kernel):
    async def main():
        fiber = kernel.spawn(settle(kernel))
        await fiber.join()
        fiber.cancel()
        await fiber.join()

    kernel.run(main())


# Events.


def test_a_set_event_wakes_all_who_wait_in_order_even_if_cleared_at_once(kernel):
    log = Log()

    async def main():
        event = kernel.flag()
        for name in "abc":
            kernel.spawn(log.waiter(event, name))
        await settle(kernel)
        event.set()
        event.clear()
        await settle(kernel)
        kernel.spawn(log.waiter(event, "late"))
        await settle(kernel)
        return event.is_set()

    assert kernel.run(main()) is False
    assert log == ["a True", "b True", "c True"]


def test_waiting_on_a_set_event_lets_nobody_in_between(kernel):
    log = Log()

    async def main():
        event = kernel.flag()
        event.set()
        kernel.spawn(log.waiter(event, "other"))
        log.append(await event.wait())
        log.append(await event.wait(0))

    kernel.run(main())

    assert log[:2] == [True, True]


def test_an_event_wait_times_out_with_false(kernel):
    async def main():
        event = kernel.flag()
        answers = [await event.wait(MOMENT), await event.wait(0), await event.wait(-1)]
        event.set()
        return [*answers, await event.wait(MOMENT)]

    assert kernel.run(main()) == [False, False, False, True]


def test_an_event_that_comes_first_beats_the_time_out(kernel):
    log = Log()

    async def main():
        event = kernel.flag()
        fiber = kernel.spawn(log.waiter(event, "a", LONG))
        await settle(kernel)
        event.set()
        event.clear()
        await fiber.join()
        await log.waiter(event, "main", MOMENT)

    kernel.run(main())

    assert log == ["a True", "main False"]


def test_an_endless_time_out_is_no_time_out(kernel):
    async def main():
        event = kernel.flag()
        fiber = kernel.spawn(Log().waiter(event, "a", float("inf")))
        sleeper = kernel.spawn(Log().sleeper(kernel, "b", float("inf")))
        await kernel.sleep(MOMENT)
        event.set()
        await fiber.join()
        return sleeper.done()

    assert kernel.run(main()) is False


# Queues.


def test_a_queue_gives_items_in_the_order_they_were_put(kernel):
    async def main():
        queue = kernel.queue()
        for item in (1, None, 3):
            queue.put(item)
        return len(queue), [await queue.get() for _ in range(3)], len(queue)

    assert kernel.run(main()) == (3, [1, None, 3], 0)


def test_take_all_empties_the_queue(kernel):
    async def main():
        queue = kernel.queue()
        queue.put(1)
        queue.put(2)
        return queue.take_all(), len(queue), queue.take_all()

    assert kernel.run(main()) == ([1, 2], 0, [])


def test_items_go_to_the_getter_that_has_waited_longest(kernel):
    log = Log()

    async def main():
        queue = kernel.queue()
        for name in "abc":
            kernel.spawn(log.getter(queue, name))
        await settle(kernel)
        for item in (1, None, 3):
            queue.put(item)
        # A newcomer must not overtake those who were handed an item but have not run yet.
        await log.getter(queue, "newcomer", 0)
        await settle(kernel)

    kernel.run(main())

    assert log == ["newcomer timed out", "a got 1", "b got None", "c got 3"]


def test_a_get_times_out_and_loses_no_item(kernel):
    log = Log()

    async def main():
        queue = kernel.queue()
        await log.getter(queue, "a", MOMENT)
        await log.getter(queue, "b", 0)
        queue.put(1)
        await log.getter(queue, "c", MOMENT)
        return len(queue)

    assert kernel.run(main()) == 0
    assert log == ["a timed out", "b timed out", "c got 1"]


def test_a_cancelled_getter_loses_no_item(kernel):
    log = Log()

    async def main():
        queue = kernel.queue()
        first = kernel.spawn(log.getter(queue, "a"))
        kernel.spawn(log.getter(queue, "b"))
        await settle(kernel)
        first.cancel()
        queue.put(1)
        await settle(kernel)

    kernel.run(main())

    assert log == ["b got 1"]


def test_a_getter_cancelled_after_it_was_handed_an_item_passes_it_on(kernel):
    log = Log()

    async def main():
        queue = kernel.queue()
        first = kernel.spawn(log.getter(queue, "a"))
        kernel.spawn(log.getter(queue, "b", LONG))
        await settle(kernel)
        queue.put(1)
        first.cancel()
        await settle(kernel)

    kernel.run(main())

    assert log == ["b got 1"]


def test_an_item_handed_to_a_cancelled_getter_returns_to_the_front(kernel):
    async def main():
        queue = kernel.queue()
        getter = kernel.spawn(Log().getter(queue, "a", LONG))
        await settle(kernel)
        queue.put(1)
        queue.put(2)
        getter.cancel()
        await settle(kernel)
        return queue.take_all()

    assert kernel.run(main()) == [1, 2]


# Time limits on anything.


def test_with_timeout_gives_back_what_came_in_time(kernel):
    async def seven():
        await kernel.sleep(0)
        return 7

    async def main():
        return await with_timeout(kernel, seven(), LONG)

    assert kernel.run(main()) == 7


def test_with_timeout_cancels_what_is_late_and_waits_for_its_finally(kernel):
    log = Log()

    async def slow():
        try:
            await kernel.sleep(LONG)
        finally:
            await kernel.sleep(0)
            log.append("tidied")

    async def main():
        with pytest.raises(TimedOut, match="slow"):
            await with_timeout(kernel, slow(), MOMENT)
        log.append("told")

    kernel.run(main())

    assert log == ["tidied", "told"]


def test_with_timeout_passes_failures_on(kernel):
    async def main():
        with pytest.raises(LookupError):
            await with_timeout(kernel, broken(LookupError()), LONG)
        with pytest.raises(TimedOut, match="a queue"):
            await with_timeout(kernel, kernel_get(), LONG)

    async def kernel_get():
        await kernel.queue().get(MOMENT)

    kernel.run(main())


def test_cancelling_the_caller_of_with_timeout_cancels_what_it_runs(kernel):
    log = Log()

    async def main():
        fiber = kernel.spawn(with_timeout(kernel, log.sleeper(kernel, "inner"), LONG))
        await settle(kernel)
        fiber.cancel()
        with pytest.raises(FiberCancelled):
            await fiber.join()
        log.append("told")

    kernel.run(main())

    assert log == ["inner starts", "inner cancelled", "told"]


def test_no_time_at_all_means_it_never_starts(kernel):
    log = Log()

    async def main():
        with pytest.raises(TimedOut):
            await with_timeout(kernel, log.sleeper(kernel, "a"), 0)

    kernel.run(main())

    assert log == []


# How a run ends.


def test_a_failure_nobody_joins_fails_the_run_at_once(kernel):
    log = Log()

    async def main():
        kernel.spawn(broken(LookupError("lost")))
        await log.sleeper(kernel, "main")

    with pytest.raises(LookupError, match="lost"):
        kernel.run(main())

    assert log == ["main starts", "main cancelled"]


def test_a_failure_is_not_excused_by_a_joiner_that_gave_up(kernel):
    async def fail_when(event):
        await event.wait()
        raise LookupError("lost")

    async def main():
        event = kernel.flag()
        fiber = kernel.spawn(fail_when(event))
        with pytest.raises(TimedOut):
            await fiber.join(MOMENT)
        event.set()
        await kernel.sleep(LONG)

    with pytest.raises(LookupError, match="lost"):
        kernel.run(main())


def test_a_joined_failure_does_not_fail_the_run(kernel):
    async def main():
        with pytest.raises(LookupError):
            await kernel.spawn(broken(LookupError())).join()
        return "fine"

    assert kernel.run(main()) == "fine"


def test_what_is_no_ordinary_exception_fails_the_run_even_if_joined(kernel):
    class Catastrophe(BaseException):
        pass

    async def main():
        with pytest.raises(Catastrophe):
            await kernel.spawn(broken(Catastrophe())).join()
        await kernel.sleep(LONG)

    with pytest.raises(Catastrophe):
        kernel.run(main())


def test_later_failures_are_noted_on_the_first(kernel):
    async def fails_when_cancelled():
        try:
            await kernel.sleep(LONG)
        finally:
            raise ValueError("second")

    async def main():
        kernel.spawn(fails_when_cancelled())
        await settle(kernel)
        raise LookupError("first")

    with pytest.raises(LookupError) as caught:
        kernel.run(main())

    assert "ValueError('second')" in caught.value.__notes__[0]


def test_a_failure_while_winding_down_fails_a_run_that_was_fine(kernel):
    async def fails_when_cancelled():
        try:
            await kernel.sleep(LONG)
        finally:
            raise ValueError("untidy")

    async def main():
        kernel.spawn(fails_when_cancelled())
        await settle(kernel)

    with pytest.raises(ValueError, match="untidy"):
        kernel.run(main())


def test_fibers_left_at_the_end_are_cancelled_in_spawn_order_and_waited_for(kernel):
    log = Log()

    async def tidy(name):
        try:
            await kernel.sleep(LONG)
        finally:
            log.append(f"{name} stops")
            await kernel.sleep(MOMENT)
            log.append(f"{name} stopped")

    async def main():
        for name in "abc":
            kernel.spawn(tidy(name))
        await settle(kernel)
        kernel.spawn(tidy("never started"))

    kernel.run(main())

    assert log == [*(f"{n} stops" for n in "abc"), *(f"{n} stopped" for n in "abc")]


def test_a_fiber_may_spawn_and_join_another_while_it_is_ending(kernel):
    log = Log()

    async def tidy():
        try:
            await kernel.sleep(LONG)
        finally:
            await kernel.spawn(log.sleeper(kernel, "broom", 0)).join()
            kernel.spawn(log.sleeper(kernel, "straggler"))
            await kernel.sleep(0)

    async def main():
        kernel.spawn(tidy())
        await settle(kernel)

    kernel.run(main())

    assert log[:2] == ["broom starts", "broom wakes"]
    assert log[2:] in ([], ["straggler starts", "straggler cancelled"])


def test_a_join_that_ends_in_fiber_cancelled_is_a_failure_like_any_other(kernel):
    async def main():
        me = kernel.queue()
        kernel.spawn(canceller(me))
        me.put(kernel.spawn(Log().sleeper(kernel, "a"), "target"))
        await kernel.sleep(LONG)

    async def canceller(me):
        fiber = await me.get()
        await settle(kernel)
        fiber.cancel()
        await fiber.join()

    with pytest.raises(FiberCancelled, match="fiber target"):
        kernel.run(main())
