"""Runner processes with orders in line: who gets what, and what becomes of those that wait."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from dataward.live import runner_pool
from dataward.live.call_pipes import CallerPipes
from dataward.live.orders import CALLS, Limits, Order, Report
from dataward.live.runner_pool import ProcessDied, RunnerPool, close_pools
from live.test_command import an_order
from live.test_runner_connection import open_files


def with_processes(slots: int, use: Callable[[RunnerPool], Awaitable[None]]) -> None:
    Path("logs").mkdir()
    Path("depot").mkdir()
    pool = RunnerPool(Path("work").absolute(), slots)

    pool.launch(slots)

    async def main() -> None:
        await pool.connect()
        try:
            await asyncio.wait_for(use(pool), 300)
        finally:
            pool.close()

    asyncio.run(main())
    pool.wait()


async def next_turn() -> None:
    """Let what is ready run: orders are given out then."""
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn


class Door:
    """A command that says it is there, and waits to be let go."""

    def __init__(self, name: str) -> None:
        self._here, self._go = Path(f"{name}.here").absolute(), Path(f"{name}.go").absolute()
        os.mkfifo(self._here)
        os.mkfifo(self._go)
        self.order = an_order("sh", "-c", f"echo > {self._here}; read line < {self._go}")

    async def reached(self) -> None:
        await asyncio.to_thread(self._here.read_text)

    async def open(self) -> None:
        await asyncio.to_thread(self._go.write_text, "\n")


def noting(name: str):
    return an_order("sh", "-c", f"echo {name} >> {Path('order').absolute()}")


def noted() -> list[str]:
    return Path("order").read_text().split() if Path("order").exists() else []


def test_orders_in_line_are_carried_out_in_order_and_their_starts_follow_the_ends():
    starts: dict[str, float] = {}
    reports: list[Report] = []

    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        first = asyncio.ensure_future(pool.carry_out(door.order))
        await door.reached()
        assert not pool.has_lines()
        rest = [
            asyncio.ensure_future(
                pool.carry_out(noting(name), lambda at, name=name: starts.update({name: at}))
            )
            for name in "abcdef"
        ]
        await next_turn()
        assert not starts
        assert pool.has_lines()
        await door.open()
        reports.extend([await first, *[await one for one in rest]])

    with_processes(1, use)

    assert noted() == list("abcdef")
    assert not any(report.error for report in reports)
    ends = [report.ended_at for report in reports]
    assert ends == sorted(ends)
    assert list(starts.values()) == ends[:-1], "one starts when the one before it has ended"


def test_one_who_waits_for_a_slow_one_is_given_to_whoever_is_free():
    async def use(pool: RunnerPool) -> None:
        slow, other = Door("slow"), Door("other")
        waiting = [asyncio.ensure_future(pool.carry_out(door.order)) for door in (slow, other)]
        await slow.reached()
        await other.reached()
        behind = [asyncio.ensure_future(pool.carry_out(noting(name))) for name in "abcd"]
        await next_turn()

        await other.open()

        for one in behind:
            await one  # though the slow one is still there
        await slow.open()
        await asyncio.gather(*waiting)

    with_processes(2, use)

    assert sorted(noted()) == list("abcd")


def test_one_that_needs_both_cores_leaves_none_for_those_in_line():
    async def use(pool: RunnerPool) -> None:
        wide = Door("wide")
        order = an_order(*wide.order.command, cores=2)
        first = asyncio.ensure_future(pool.carry_out(order))
        await wide.reached()
        behind = [asyncio.ensure_future(pool.carry_out(noting(name))) for name in "ab"]
        await next_turn()
        await asyncio.to_thread(os.sched_yield)
        assert not noted(), "there is a process with nothing to do, but no core"
        await wide.open()
        await asyncio.gather(first, *behind)

    with_processes(2, use)

    assert sorted(noted()) == ["a", "b"]


def test_one_that_is_called_off_in_line_never_begins():
    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        first = asyncio.ensure_future(pool.carry_out(door.order))
        await door.reached()
        a, b, c = (asyncio.ensure_future(pool.carry_out(noting(name))) for name in "abc")
        await next_turn()
        heard = asyncio.Event()
        pool.on_reports = lambda process: heard.set()  # that it will not begin
        b.cancel()
        with pytest.raises(asyncio.CancelledError):
            await b
        await heard.wait()
        del pool.on_reports
        await door.open()
        await asyncio.gather(first, a, c)

    with_processes(1, use)

    assert noted() == ["a", "c"]


def test_one_that_ends_when_it_is_asked_to_is_not_waited_for_any_longer():
    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        patient = door.order._replace(limits=Limits(grace_seconds=100_000.0))
        task = asyncio.ensure_future(pool.carry_out(patient))
        await door.reached()

        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        await pool.carry_out(noting("next"))

    with_processes(1, use)

    assert noted() == ["next"]


def test_when_a_process_dies_those_in_line_have_another():
    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        kill = an_order(
            "sh", "-c", f"{door.order.command[2]}; kill -9 $PPID; read line < {Path.cwd()}/never"
        )
        os.mkfifo("never")
        first = asyncio.ensure_future(pool.carry_out(kill))
        await door.reached()
        behind = [asyncio.ensure_future(pool.carry_out(noting(name))) for name in "abc"]
        await next_turn()
        await door.open()
        with pytest.raises(ProcessDied, match="killed by signal 9"):
            await first
        await asyncio.gather(*behind)

    with_processes(1, use)

    assert noted() == list("abc")


def test_what_was_printed_is_in_the_logs_of_whoever_printed_it():
    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        first = asyncio.ensure_future(pool.carry_out(door.order))
        await door.reached()
        logs = Path("logs").absolute()
        behind = []
        for name in "abcd":
            order = an_order("sh", "-c", f"echo {name}" if name != "c" else ":")
            behind.append(_logging_to(pool, order, str(logs / name)))
        await next_turn()
        await door.open()
        await asyncio.gather(first, *behind)

    with_processes(1, use)

    kept = {path.name: path.read_text() for path in Path("logs").iterdir()}
    assert kept == {f"{name}.out": f"{name}\n" for name in "abd"}


def _logging_to(pool: RunnerPool, order, stem: str) -> "asyncio.Future[Report]":
    return asyncio.ensure_future(pool.carry_out(order._replace(logs=stem)))


def test_a_report_waits_for_the_next_ones_no_longer_than_its_order_says():
    async def use(pool: RunnerPool) -> None:
        first, last = Door("first"), Door("last")
        patient = noting("a")._replace(hold_seconds=1000.0)
        hasty = noting("b")._replace(hold_seconds=0.0)
        begun = [asyncio.ensure_future(pool.carry_out(first.order))]
        await first.reached()
        begun += [
            asyncio.ensure_future(pool.carry_out(order)) for order in (patient, hasty, last.order)
        ]
        await next_turn()
        await first.open()
        await last.reached()

        await begun[2]
        assert begun[1].done(), "they came together"
        assert not begun[3].done()

        await last.open()
        await begun[3]

    with_processes(1, use)


def test_a_report_that_may_wait_does_so_while_there_is_more_to_do():
    async def use(pool: RunnerPool) -> None:
        first, last = Door("first"), Door("last")
        patient = noting("a")._replace(hold_seconds=1000.0)
        begun = [asyncio.ensure_future(pool.carry_out(first.order._replace(hold_seconds=1000.0)))]
        await first.reached()
        begun += [asyncio.ensure_future(pool.carry_out(order)) for order in (patient, last.order)]
        await next_turn()
        await first.open()
        await last.reached()

        assert not any(one.done() for one in begun)

        await last.open()
        await asyncio.gather(*begun)

    with_processes(1, use)


# --- the end of a pool ---------------------------------------------------------------------------


def test_a_pool_that_is_closed_has_no_file_open():
    async def use(pool: RunnerPool) -> None:
        await pool.carry_out(noting("a"))

    before = open_files()
    with_processes(2, use)

    assert open_files() == before


def test_a_pool_without_processes_has_no_lines() -> None:
    assert not RunnerPool(Path("work").absolute(), 2).has_lines()


def test_processes_that_were_launched_and_given_nothing_end_with_their_pool():
    before = open_files(), child_processes()
    pool = RunnerPool(Path("work").absolute(), 2)
    pool.launch(5)
    assert len(child_processes() - before[1]) == 2

    close_pools([pool])

    assert (open_files(), child_processes()) == before


def test_processes_are_started_before_the_first_order_comes() -> None:
    Path("logs").mkdir()
    before = child_processes()
    pool = RunnerPool(Path("work").absolute(), 2)

    async def main() -> None:
        pool.get_ready(1)
        pool.get_ready(5)  # while the first is being started
        assert pool._restart is not None
        await pool._restart
        assert len(child_processes() - before) == 1
        pool.get_ready(5)
        await pool._restart
        ready = child_processes() - before
        assert len(ready) == 2, "no more than there are slots"
        await pool.carry_out(an_order("true"))
        assert child_processes() - before == ready
        pool.close()

    asyncio.run(main())
    pool.wait()
    assert child_processes() == before


def child_processes() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def test_a_process_is_waited_for_once_since_its_number_may_be_anothers_by_then(monkeypatch):
    """A pool is closed where its run ends, and once more by whoever had it made."""
    pool = RunnerPool(Path("work").absolute(), 3)
    door = Door("door")

    async def main() -> None:
        pool.launch(2)
        await pool.connect()
        busy = asyncio.ensure_future(pool.carry_out(door.order))
        await door.reached()
        pool.launch(1)
        pool.close()
        busy.cancel()

    Path("logs").mkdir()
    asyncio.run(main())
    waited_for: list[int] = []
    wait = os.waitpid
    monkeypatch.setattr(os, "waitpid", lambda pid, how: (waited_for.append(pid), wait(pid, how))[1])

    pool.wait()
    assert len(set(waited_for)) == 3
    close_pools([pool])

    assert len(waited_for) == 3


def test_a_runner_process_starts_with_few_modules() -> None:
    boot = runner_pool._BOOT.removesuffix("main()\n") + "print(*sys.modules)"
    line = [sys.executable, "-c", boot, "0", "nowhere", runner_pool._PACKAGE]

    loaded = set(subprocess.run(line, capture_output=True, text=True).stdout.split())

    assert "dataward.live.runner_process" in loaded
    heavy = {"asyncio", "dataclasses", "inspect", "json", "logging", "msgspec", "numpy", "pathlib"}
    assert loaded & (heavy | {"pickle", "socket", "subprocess", "tempfile"}) == set()
    assert not any(name.startswith(("dataward.node", "dataward.runs")) for name in loaded)


# --- slots that are lent to calls ----------------------------------------------------------------


def an_order_for_calls(stem: str) -> tuple[CallerPipes, Order]:
    """An order to make calls until no more come, and the pipes that they come through."""
    pipes = CallerPipes(str(Path(stem).absolute()))
    order = an_order(CALLS, str(Path(stem).absolute()))
    return pipes, order._replace(is_calls=True, logs="")


def test_a_run_that_has_been_lent_a_slot_is_told_when_another_run_waits_for_it(tmp_path) -> None:
    async def use(pool: RunnerPool) -> None:
        waits: list[float | None] = []
        pipes, calls = an_order_for_calls("one")
        started, wanted = asyncio.Event(), asyncio.Event()

        def on_waiting() -> None:
            waits.append(pool.lead_seconds("calls"))
            wanted.set()

        pool.watch(on_waiting)
        lent = asyncio.create_task(pool.carry_out(calls, lambda at: started.set(), "calls"))
        await started.wait()
        other = asyncio.create_task(pool.carry_out(an_order("true"), run="workflow"))
        await wanted.wait()
        pipes.say_last()

        assert (await lent).error == ""
        assert (await other).error == ""
        assert waits == [0.0]
        assert pool.lead_seconds("calls") is None
        pool.unwatch(on_waiting)
        pipes.close()

    with_processes(1, use)


def processes() -> set[int]:
    """The runner processes of this test; others may have left children to this process."""
    work = str(Path("work").absolute())
    alive = (p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE)
    return {p.pid for p in alive if work in " ".join(p.cmdline())}


def test_calls_of_another_run_get_a_process_of_their_own_until_the_run_is_over(tmp_path) -> None:
    async def use(pool: RunnerPool) -> None:
        async def lend(run: str, stem: str) -> set[int]:
            pipes, calls = an_order_for_calls(stem)
            lent = asyncio.create_task(pool.carry_out(calls, run=run))
            started = asyncio.Event()
            asyncio.get_running_loop().add_reader(pipes.bell, started.set)
            await started.wait()
            asyncio.get_running_loop().remove_reader(pipes.bell)
            found = processes()
            pipes.say_last()
            assert (await lent).error == ""
            pipes.close()
            return found

        of_a = await lend("a", "one")
        assert len(of_a) == 1
        assert await lend("a", "two") == of_a
        both = await lend("b", "three")
        assert len(both) == 2
        assert await lend("a", "four") == both, "each has its own"
        pool.forget("a")
        assert await lend("b", "five") >= both - of_a
        while of_a & processes():
            await next_turn()
        assert processes() == both - of_a

    with_processes(1, use)


def test_short_orders_of_one_run_go_on_until_it_has_used_as_much_time_as_another():
    async def use(pool: RunnerPool) -> None:
        door = Door("door")
        long = asyncio.ensure_future(pool.carry_out(door.order, run="long"))
        await door.reached()

        async def one_by_one() -> None:
            for number in range(3):
                await pool.carry_out(noting(f"short{number}"), run="short")

        short = asyncio.ensure_future(one_by_one())
        another = asyncio.ensure_future(pool.carry_out(noting("long"), run="long"))
        await next_turn()
        pool._waiting.used("short", 0.0)
        pool._waiting.used("long", 1000.0)
        await door.open()
        await asyncio.gather(long, another, short)

    with_processes(1, use)

    assert noted() == ["short0", "short1", "short2", "long"]


def test_a_process_is_held_for_no_run_that_gives_no_more_orders():
    async def use(pool: RunnerPool) -> None:
        await pool.carry_out(noting("short"), run="short")
        pool._waiting.used("long", 1000.0)  # more than short
        door = Door("door")
        short = asyncio.ensure_future(pool.carry_out(door.order, run="short"))
        await door.reached()
        long = asyncio.ensure_future(pool.carry_out(noting("long"), run="long"))
        await door.open()
        await asyncio.gather(short, long)

    with_processes(1, use)

    assert noted() == ["short", "long"]
