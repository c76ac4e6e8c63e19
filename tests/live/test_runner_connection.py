"""Who is told of the start of an order in line, whatever its forerunner's report comes with."""

import asyncio
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from dataward.live.orders import Report, framed
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
ENDED, GIVEN_BACK = Report(ended_at=5.0), Report(not_begun=True)


@dataclass(frozen=True)
class TwoInLine:
    """A process that was given two orders: somebody waits for the first, the second is in line."""

    process: RunnerConnection
    over: asyncio.Task[Report]  # the wait for the first
    starts: list[float]  # when the second was told to have begun

    @classmethod
    async def made(cls, *, has_idle_process: bool = False) -> Self:
        owner, starts = PassesOn(), list[float]()
        process = a_line(owner)
        if has_idle_process:
            owner.other = a_line(owner)
        first, second = a_pending(1, []), a_pending(2, starts)
        process.give(first)
        process.give(second)
        return cls(process, await awaited(first), starts)

    def hear(self, *reports: tuple[int, Report]) -> None:
        self.process.data_received(framed(list(reports)))


def a_line(owner: PassesOn) -> RunnerConnection:
    return RunnerConnection(owner, NO_PROCESS, Path("work"))


def a_pending(number: int, starts: list[float]) -> PendingOrder:
    report = asyncio.get_running_loop().create_future()
    return PendingOrder(number, an_order("true"), starts.append, report)


async def awaited(pending: PendingOrder) -> asyncio.Task[Report]:
    """The wait for an order's report, once it has come as far as waiting."""
    waits = asyncio.Event()

    async def over() -> Report:
        waits.set()
        return await pending.over()

    task = asyncio.ensure_future(over())
    await waits.wait()
    return task


def test_an_order_that_came_back_along_with_its_forerunners_report_is_told_once_where_it_began():
    async def main() -> list[float]:
        two = await TwoInLine.made(has_idle_process=True)

        two.hear((1, ENDED), (2, GIVEN_BACK))
        await two.over

        return two.starts

    starts = asyncio.run(main())

    assert len(starts) == 1
    assert starts != [5.0], "it did not begin where its forerunner ended"


def test_an_order_that_came_back_after_it_was_told_to_have_begun_is_not_told_again():
    """It was asked back on its way, and its process answered only after the report before it."""

    async def main() -> list[float]:
        two = await TwoInLine.made(has_idle_process=True)

        two.hear((1, ENDED))
        await two.over
        two.hear((2, GIVEN_BACK))

        return two.starts

    assert asyncio.run(main()) == [5.0]


def test_an_order_that_came_back_to_wait_is_not_told_to_have_begun():
    async def main() -> list[float]:
        two = await TwoInLine.made()

        two.hear((1, ENDED), (2, GIVEN_BACK))
        await two.over

        return two.starts

    assert asyncio.run(main()) == []


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
    async def main() -> list[float]:
        two = await TwoInLine.made()

        two.hear((1, ENDED))
        two.over.cancel()
        with pytest.raises(asyncio.CancelledError):
            await two.over

        return two.starts

    assert asyncio.run(main()) == [5.0]


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
