"""Who is told of the start of an order in line, whatever its forerunner's report comes with."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from dataward.live.orders import Order, Report, framed
from dataward.live.runner_connection import PendingOrder, RunnerConnection
from live.test_command import an_order


class PassesOn:
    """Gives orders that come back to another process, as a pool does that has an idle one."""

    def __init__(self) -> None:
        self.other: RunnerConnection | None = None

    def on_reports(self, process: RunnerConnection) -> None:
        """Nothing waits."""

    def on_returned(self, pending: PendingOrder) -> None:
        if self.other is not None:
            self.other.give(pending)


NO_PROCESS = 2**31 - 1


def a_line(owner: PassesOn) -> RunnerConnection:
    return RunnerConnection(owner, NO_PROCESS, Path("work"))


def a_pending(number: int, starts: list[float], order: Order | None = None) -> PendingOrder:
    report = asyncio.get_running_loop().create_future()
    return PendingOrder(number, order or an_order("true"), starts.append, report)


def test_an_order_that_came_back_along_with_its_forerunners_report_is_told_once_where_it_began():
    starts: list[float] = []

    async def main() -> None:
        owner = PassesOn()
        process, owner.other = a_line(owner), a_line(owner)
        first, second = a_pending(1, []), a_pending(2, starts)
        process.give(first)
        process.give(second)
        over = asyncio.ensure_future(first.over())
        await asyncio.sleep(0)

        process.data_received(framed([(1, Report(ended_at=5.0)), (2, Report(not_begun=True))]))
        await over

    asyncio.run(main())

    assert len(starts) == 1
    assert starts != [5.0], "it did not begin where its forerunner ended"


def test_an_order_that_came_back_after_it_was_told_to_have_begun_is_not_told_again():
    """It was asked back on its way, and its process answered only after the report before it."""
    starts: list[float] = []

    async def main() -> None:
        owner = PassesOn()
        process, owner.other = a_line(owner), a_line(owner)
        first, second = a_pending(1, []), a_pending(2, starts)
        process.give(first)
        process.give(second)
        over = asyncio.ensure_future(first.over())
        await asyncio.sleep(0)

        process.data_received(framed([(1, Report(ended_at=5.0))]))
        await over
        process.data_received(framed([(2, Report(not_begun=True))]))

    asyncio.run(main())

    assert starts == [5.0]


def test_an_order_that_came_back_to_wait_is_not_told_to_have_begun():
    starts: list[float] = []

    async def main() -> None:
        process = a_line(PassesOn())
        first, second = a_pending(1, []), a_pending(2, starts)
        process.give(first)
        process.give(second)
        over = asyncio.ensure_future(first.over())
        await asyncio.sleep(0)

        process.data_received(framed([(1, Report(ended_at=5.0)), (2, Report(not_begun=True))]))
        await over

    asyncio.run(main())

    assert starts == []


@pytest.mark.parametrize("is_late", [False, True])
def test_an_order_behind_one_that_came_back_is_told_of_its_start(is_late):
    """Whether the order before it came back along with the report of the first, or after that."""
    starts: list[float] = []
    reports = [(1, Report(ended_at=5.0)), (2, Report(not_begun=True))]

    async def main() -> None:
        process = a_line(PassesOn())
        first, second, third = a_pending(1, []), a_pending(2, []), a_pending(3, starts)
        for pending in (first, second, third):
            process.give(pending)
        over = asyncio.ensure_future(first.over())
        await asyncio.sleep(0)

        process.data_received(framed(reports[:1] if is_late else reports))
        await over
        if is_late:
            process.data_received(framed(reports[1:]))

    asyncio.run(main())

    assert starts == [5.0]


def test_an_order_whose_forerunner_was_called_off_just_as_it_ended_is_told_of_its_start():
    starts: list[float] = []

    async def main() -> None:
        process = a_line(PassesOn())
        first, second = a_pending(1, []), a_pending(2, starts)
        process.give(first)
        process.give(second)
        over = asyncio.ensure_future(first.over())
        await asyncio.sleep(0)

        process.data_received(framed([(1, Report(ended_at=5.0))]))
        over.cancel()
        with pytest.raises(asyncio.CancelledError):
            await over

    asyncio.run(main())

    assert starts == [5.0]


def test_a_connection_that_is_closed_no_longer_watches_its_process():
    async def main(pid: int) -> None:
        before = open_files()
        connection = RunnerConnection(PassesOn(), pid, Path("work"))
        connection.watch()
        watched = open_files() - before

        connection.close()

        assert open_files() == before
        # Whoever opens a file next gets its number, which nobody must watch by then.
        assert len(watched) == 1
        assert not asyncio.get_running_loop().remove_reader(watched.pop())

    process = subprocess.Popen(["sleep", "1000"])
    try:
        asyncio.run(main(process.pid))
    finally:
        process.kill()
        process.wait()


def open_files() -> set[int]:
    """The open files of this process, without the one that lists them."""
    return {int(number) for number in os.listdir("/proc/self/fd") if is_open(int(number))}


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
