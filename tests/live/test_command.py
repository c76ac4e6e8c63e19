"""Commands, given to a runner process as a node gives them."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dataward.live.command import find_program, printed_too_much
from dataward.live.orders import Limits, Order, Report
from dataward.live.runner_pool import ProcessDied, RunnerPool
from dataward.model.launch import Launch
from runs.real_runs import is_alive, outlives_many_looks


def an_order(*command: str, outputs: tuple[str, ...] = (), cores: int = 1, **limits) -> Order:
    return Order(
        task="t",
        command=command,
        is_calls=False,
        inputs=(),
        outputs=outputs,
        depot=str(Path("depot").absolute()),
        logs=str(Path("logs").absolute() / "t"),
        cores=cores,
        limits=Limits(grace_seconds=0.1, **limits),
    )


def with_a_pool(use: Callable[[RunnerPool], Awaitable[None]]) -> None:
    """Call it with runner processes at hand, which are gone afterwards."""
    Path("logs").mkdir()
    Path("depot").mkdir()
    pool = RunnerPool(Path("work").absolute(), 2)

    async def main() -> None:
        try:
            await use(pool)
        finally:
            pool.close()

    asyncio.run(main())
    pool.wait()


def reports_of(*orders: Order) -> list[Report]:
    """One after the other, in one process."""
    found: list[Report] = []

    async def use(pool: RunnerPool) -> None:
        for order in orders:
            found.append(await pool.carry_out(order))

    with_a_pool(use)
    return found


def printed(stream: str = "out") -> str:
    return Path(f"logs/t.{stream}").read_text()


def test_every_exit_code_is_told():
    codes = [0, 1, 2, 77, 126, 127, 128, 255]

    reports = reports_of(*(an_order("sh", "-c", f"exit {code}") for code in codes))

    assert [report.exit_code for report in reports] == codes
    assert [report.error for report in reports] == [
        f"it ended with exit code {code}" if code else "" for code in codes
    ]


def test_every_deadly_signal_is_told():
    names = ["HUP", "INT", "QUIT", "ABRT", "PIPE", "TERM", "USR1", "XFSZ"]

    reports = reports_of(*(an_order("sh", "-c", f"kill -{name} $$") for name in names))

    assert [report.error.partition("(")[2].rstrip(")") for report in reports] == [
        f"SIG{name}" for name in names
    ]
    assert all(report.signal and not report.exit_code for report in reports)


def test_a_command_is_told_its_cores_and_finds_nothing_to_read(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    line = "cat; echo $OMP_NUM_THREADS $DATAWARD_CORES"

    (report,) = reports_of(an_order("sh", "-c", line, cores=3))

    assert report.error == ""
    assert printed() == "3 3\n"


def test_what_the_user_says_about_threads_goes_before_what_we_say(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")

    reports_of(an_order("sh", "-c", "echo $OMP_NUM_THREADS $DATAWARD_CORES", cores=2))

    assert printed() == "7 2\n"


def test_both_streams_are_kept_apart():
    reports_of(an_order("sh", "-c", "echo one; echo two >&2; echo three"))

    assert (printed("out"), printed("err")) == ("one\nthree\n", "two\n")


def test_a_log_is_cut_where_it_may_not_go_on():
    (report,) = reports_of(
        an_order("sh", "-c", "yes | head -c 5000; kill -9 $$", log_bytes=1000),
    )

    assert len(printed()) == 1000
    assert report.error


def test_what_was_printed_before_a_bad_output_is_not_printed_by_the_next_task():
    first, second = reports_of(
        an_order("sh", "-c", "echo first", outputs=("o",)),
        an_order("sh", "-c", "echo second"),
    )

    assert first.error.startswith("it ended well but did not write 'o'")
    assert second.error == ""
    assert printed() == "second\n"


def test_words_that_no_system_takes_are_refused():
    nul, long = reports_of(an_order("echo", "a\0b"), an_order("echo", "x" * 3_000_000))

    assert nul.error.startswith("its command cannot be started")
    assert long.error == "its command is longer than the system allows"


def test_a_command_that_cannot_be_started_for_another_reason_fails_with_that_reason():
    (report,) = reports_of(an_order("/dev/null/program"))

    assert report.error == "'/dev/null/program' cannot be started (Not a directory)"
    assert (report.exit_code, report.signal) == (127, 0)


def test_a_command_that_was_killed_beyond_its_memory_is_told_so_and_below_it_is_not():
    beyond, below, unlimited = reports_of(
        *(an_order("sh", "-c", "kill -9 $$", memory_bytes=limit) for limit in (1, 1 << 40, 0))
    )

    assert beyond.error.startswith("it used ")
    assert beyond.error.endswith(" of memory, and may use 1 B")
    by_whom = "it was killed by signal 9 (SIGKILL); the system may have been out of memory"
    assert [below.error, unlimited.error] == [by_whom, by_whom]


def test_a_signal_without_a_name_is_told_by_its_number():
    (report,) = reports_of(an_order("sh", "-c", "kill -40 $$"))

    assert (report.error, report.signal) == ("it was killed by signal 40 (unknown)", 40)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5 MiB"),
        (3 << 30, "3 GiB"),
        (3 << 40, "3 TiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes_are_told_in_the_unit_that_fits(size_bytes, text):
    assert printed_too_much(size_bytes) == f"it printed more than {text}, which would fill the disk"


def a_program(place: str, *, is_executable: bool = True) -> str:
    Path(place).mkdir()
    path = Path(place) / "program"
    path.touch(mode=0o755 if is_executable else 0o644)
    return str(path)


def test_a_program_is_the_first_on_the_path_that_may_be_executed():
    a_program("a", is_executable=False)
    found, other = a_program("b"), a_program("c")
    Path("d/program").mkdir(parents=True)

    assert find_program("program", "d:nowhere:a:b:c") == found
    assert find_program("program", "c:b") == other


@pytest.mark.parametrize(
    ("path", "error"), [("nowhere:d", FileNotFoundError), ("a:nowhere", PermissionError)]
)
def test_a_program_that_may_not_be_executed_is_told_from_one_that_is_not_there(path, error):
    a_program("a", is_executable=False)
    Path("d/program").mkdir(parents=True)

    with pytest.raises(error):
        find_program("program", path)


def test_what_a_failed_command_wrote_to_files_of_its_streams_is_its_log_cut_as_any_other():
    line = "yes | head -c 5000; echo short >&2; exit 3"
    order = an_order("sh", "-c", line, log_bytes=1000)

    (report,) = reports_of(order._replace(launch=Launch(stdout="o", stderr="e")))

    assert report.exit_code == 3
    assert (len(printed("out")), printed("err")) == (1000, "short\n")


def test_what_a_command_used_is_measured():
    loop = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"

    (report,) = reports_of(an_order("sh", "-c", loop))

    assert report.cpu_seconds > 0
    assert report.wall_seconds > 0
    assert report.peak_memory_bytes > 100_000


def test_a_task_that_is_called_off_ends_and_its_process_takes_the_next():
    os.mkfifo("pid")

    async def use(pool: RunnerPool) -> None:
        line = f"echo $$ > {Path.cwd()}/pid; trap '' TERM; while :; do sleep 1000; done"
        task = asyncio.ensure_future(pool.carry_out(an_order("sh", "-c", line)))
        pid = int(await asyncio.to_thread(Path("pid").read_text))

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = await pool.carry_out(an_order("sh", "-c", "echo next"))

        assert report.error == ""
        assert not outlives_many_looks(pid)

    with_a_pool(use)


def test_when_the_node_lets_go_running_tasks_end():
    os.mkfifo("pid")
    pids: list[int] = []

    async def use(pool: RunnerPool) -> None:
        line = f"setsid sleep 1000 & echo $$ $! > {Path.cwd()}/pid; sleep 1000"
        task = asyncio.ensure_future(pool.carry_out(an_order("sh", "-c", line)))
        pids.extend(map(int, (await asyncio.to_thread(Path("pid").read_text)).split()))
        task.cancel()

    with_a_pool(use)

    assert len(pids) == 2
    assert not any(map(is_alive, pids))


def test_a_runner_that_is_killed_takes_its_task_with_it():
    os.mkfifo("pid")

    async def use(pool: RunnerPool) -> None:
        line = f"setsid sleep 1000 & echo $$ $! > {Path.cwd()}/pid; kill -9 $PPID; sleep 1000"
        task = asyncio.ensure_future(pool.carry_out(an_order("sh", "-c", line)))
        pids = (await asyncio.to_thread(Path("pid").read_text)).split()

        with pytest.raises(ProcessDied, match="killed by signal 9"):
            await task
        assert not any(map(outlives_many_looks, map(int, pids)))

    with_a_pool(use)


def test_a_command_that_is_stopped_for_a_while_has_not_ended():
    goes_on = "until grep -q 'State:.T' /proc/$$/status; do :; done; kill -CONT $$"

    (report,) = reports_of(an_order("sh", "-c", f"({goes_on}) & kill -STOP $$; exit 7"))

    assert report.exit_code == 7


def test_the_end_of_somebody_else_is_not_taken_for_the_commands():
    """Orphans fall to the runner process, which hears of all their ends at once, or of some."""
    orphans = "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done"

    reports = reports_of(
        *(an_order("sh", "-c", f"{orphans}; exit {code}") for code in (1, 2, 3)),
        an_order("true"),
    )

    assert [report.exit_code for report in reports] == [1, 2, 3, 0]


def test_whoever_ignores_the_ends_of_children_is_told_of_commands_all_the_same():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        reports = reports_of(an_order("true"), an_order("sh", "-c", "exit 3"))
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert [report.exit_code for report in reports] == [0, 3]


def test_a_command_finds_no_signal_blocked():
    reports_of(an_order("grep", "SigBlk", "/proc/self/status"))

    assert int(printed().split()[1], 16) == 0


def test_one_that_prints_too_much_fails_also_if_it_ends_before_anybody_looks():
    first, second = reports_of(
        an_order("sh", "-c", "yes | head -c 5000", log_bytes=1000), an_order("echo", "next")
    )

    assert first.error == "it printed more than 1000 B, which would fill the disk"
    assert second.error == ""
    assert printed() == "next\n"
