"""What is seen during a run: a picture that fits the terminal, or a line now and then."""

import re
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from builders import a_diamond
from dataward.cli.run_picture import picture
from dataward.cli.run_view import RunView
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptEnded, Event, InputsStaged, TaskFinished, TaskSkipped
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.plan.end_forecast import EndForecast
from dataward.reports.progress import RunProgress
from reports.lives import error, failed, failed_with_parent, ran, removed, run_started, started
from reports.runs import simulated


def a_console(width: int = 80, height: int = 24, *, terminal: bool = True) -> Console:
    """What is printed on it can be read from its file; colours are left out."""
    return Console(
        file=StringIO(),
        width=width,
        height=height,
        force_terminal=terminal,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={"TERM": "xterm"},
    )


def printed(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def a_view(
    *events: Event, console: Console, workflow: Workflow | None = None, quiet: bool = False
) -> RunView:
    progress = RunProgress(workflow or a_diamond())
    view = RunView(progress, quiet=quiet, console=console, timer=lambda: 0.0)
    for event in events:
        view.add(event)
    return view


def drawn(
    *events: Event,
    now: float = 20.0,
    width: int = 80,
    height: int = 24,
    workflow: Workflow | None = None,
    left: EndForecast | None = EndForecast(10.0, 8.0, 130.0),  # noqa: B008 - frozen
) -> list[str]:
    """The lines of the picture, without a cursor moving about."""
    console = a_console(width, height)
    progress = a_view(*events, console=console, workflow=workflow).progress
    console.print(picture(progress, now, left, width, height))
    return printed(console).splitlines()


# --- the picture ---------------------------------------------------------------------------------


def test_everything_worth_knowing_is_in_the_picture() -> None:
    staged = InputsStaged(2.0, TaskId("left"), "n0.1.left1", "n0", 3_000_000, 1_000_000)
    left = EndForecast(10.0, 8.0, 13.0)
    events = [run_started(), *ran("split", 2.0, 2.0), staged, *started("left", 8.0)]

    text = "\n".join(
        drawn(*events, *error("right", 9.0), failed("right", 9.0), now=10.0, left=left)
    )

    for piece in (
        "diamond", "2 of 4  50%", "waiting 1", "ready 0", "running 1", "complete 1", "failed 1",
        "0.2 tasks/s", "10 s so far", "about 10 s left (8.0 to 13 s)", "inputs: 1.00 MB staged",
        "3.00 MB found locally (75%)", "left  on n0  2 s", "right failed: exit code 3",
    ):  # fmt: skip
        assert piece in text


def test_what_is_not_known_yet_is_left_out() -> None:
    text = "\n".join(drawn(run_started(), now=1.0, left=None))

    assert "left" not in text
    assert "inputs" not in text
    assert "skipped" not in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
@pytest.mark.parametrize("height", [5, 10, 24, 60])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_picture_fits_any_terminal(width: int, height: int, share: float) -> None:
    events = simulated()
    workflow = generate("montage", 60, 1)

    lines = drawn(
        *events[: int(share * len(events))], width=width, height=height, workflow=workflow
    )

    assert max(map(cell_len, lines)) < width
    if width >= 60:
        assert len(lines) <= max(height, 10)


def test_at_sixty_columns_nothing_is_cut() -> None:
    lines = drawn(*simulated()[:500], width=60, workflow=generate("montage", 60, 1))

    assert not any("~" in line or "…" in line for line in lines)


@pytest.mark.parametrize("name", ["x" * 300, "日" * 300, "[bold]x[/bold]" * 20, ":smile:" * 40])
@pytest.mark.parametrize("width", [30, 60, 120])
def test_no_name_breaks_the_picture(name: str, width: int) -> None:
    wf = WorkflowBuilder(name)
    wf.task(name)
    wf.task("bad")
    reason = "\x1b[2Jexit\ncode\x07 " + name
    attempt_failed = AttemptEnded(
        1.0, TaskId("bad"), "n.1.1", "\x1bnode" * 9, AttemptOutcome.FAILED, reason
    )
    for_good = TaskFinished(1.0, TaskId("bad"), "n.1.1", "n", TaskState.FAILED, 1)
    events = [*started(name, 0.0, node="\x1b[31m" * 9), attempt_failed, for_good]

    lines = drawn(*events, width=width, workflow=wf.build())

    assert max(map(cell_len, lines)) < width
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert name[:3] in text
    assert "bad failed: \\x1b[2J" in text


def test_a_long_list_of_running_tasks_and_failures_is_cut_short() -> None:
    wf = WorkflowBuilder("row")
    for i in range(40):
        wf.task(f"t{i}")
    broken = [e for i in range(20) for e in (*error(f"t{i}", 1.0), failed(f"t{i}", 1.0))]
    running = [event for i in range(20, 40) for event in started(f"t{i}", float(i))]

    lines = drawn(*broken, *running, now=50.0, workflow=wf.build())

    text = "\n".join(lines)
    assert [line.split()[0] for line in lines if " on n0 " in line] == ["t20", "t21", "t22", "t23"]
    assert "and 16 more running" in text
    assert [line.split()[0] for line in lines if "exit code" in line] == ["t17", "t18", "t19"]


def test_tasks_that_will_not_run_are_counted() -> None:
    events = [*error("left", 1.0), failed("left", 1.0), failed_with_parent("join", 1.0)]

    assert "  1 that depend on failed tasks will not run" in drawn(*events)


def test_removed_tasks_are_counted_if_there_are_any() -> None:
    assert "removed 2" in "\n".join(drawn(removed("left", 1.0), removed("join", 1.0)))
    assert "removed" not in "\n".join(drawn(*ran("split", 1.0)))


# --- on a terminal -------------------------------------------------------------------------------


def test_a_terminal_gets_the_picture_and_is_left_as_it_was() -> None:
    console = a_console()
    view = a_view(run_started(), *ran("split", 1.0), console=console)

    view.refresh(1.0)
    view.add(started("left", 1.0)[0])
    view.refresh(1.25)
    shown = printed(console)
    view.close()
    view.close()
    view.refresh(2.0)

    assert "1 of 4  25%" in shown
    assert "staging 1" in shown
    rest = printed(console)[len(shown) :]
    assert "\x1b[?25h" in rest  # the cursor is back
    assert rest.endswith(3 * "\x1b[1A\x1b[2K")  # and what was drawn is wiped away


def test_what_is_said_stays_above_the_picture() -> None:
    console = a_console()
    view = a_view(run_started(), console=console)
    view.refresh(0.0)
    shown = len(printed(console))

    view.say("stopping: 2 tasks\x1b end")
    view.close()

    rest = printed(console)[shown:]
    assert rest.index("stopping: 2 tasks\\x1b end\n") < rest.index("0 of 4")
    assert rest.startswith("\r\x1b[2K\x1b[1A\x1b[2K")  # the picture makes room first


def test_what_is_said_is_a_line_elsewhere_and_nothing_if_quiet() -> None:
    pipe, nowhere = a_console(terminal=False), a_console()

    a_view(console=pipe).say("stopping")
    a_view(console=nowhere, quiet=True).say("stopping")

    assert (printed(pipe), printed(nowhere)) == ("stopping\n", "")


def test_a_view_that_never_showed_anything_leaves_nothing() -> None:
    console = a_console()

    a_view(run_started(), console=console).close()

    assert printed(console) == ""


def test_the_forecast_is_made_once_a_second() -> None:
    console = a_console()
    asked: list[float] = []
    view = a_view(run_started(), *ran("split", 1.0), console=console)
    view.foreseen(None, lambda now: asked.append(now))

    for tick in range(12):
        view.refresh(tick / 4)
    view.close()

    assert asked == [0.0, 1.0, 2.0]


def test_a_forecast_takes_at_most_a_hundredth_of_the_time() -> None:
    asked: list[float] = []
    clock = iter(range(1000))
    view = RunView(RunProgress(a_diamond()), console=a_console(), timer=lambda: next(clock) / 20)
    view.foreseen(None, lambda now: asked.append(now))  # it takes 0.05 s by that clock

    for tick in range(4 * 12):
        view.refresh(tick / 4)
    view.close()

    assert asked == [0.0, 5.0, 10.0]


def test_what_is_left_grows_less_until_the_next_forecast() -> None:
    console = a_console(terminal=False)
    view = RunView(RunProgress(a_diamond()), console=console, timer=iter([0.0, 1.0]).__next__)
    view.foreseen(None, lambda now: EndForecast(12.0, 7.0, 16.0))  # it takes 1 s by that clock

    for second in range(26):
        view.refresh(float(second))

    said = [line.partition("about ")[2] for line in printed(console).splitlines()]
    assert said == [
        "12 s left (7.0 to 16 s)",
        "7.0 s left (2.0 to 11 s)",
        "2.0 s left (0.0 to 6.0 s)",
        "0.0 s left (0.0 to 1.0 s)",
        "",
    ]


def test_what_is_expected_is_said_before_the_run_in_one_line() -> None:
    console = a_console(width=60, terminal=False)

    a_view(console=console).foreseen(EndForecast(12.3, 9.1, 17.0), lambda now: None)

    assert printed(console) == "should take 12 s (9.1 to 17 s in 9 of 10 cases)\n"


@pytest.mark.parametrize("forecast", [None, EndForecast(0.5, 0.2, 1.0)])
def test_nothing_is_said_of_a_run_of_which_nothing_is_known_or_that_is_over_at_once(
    forecast: EndForecast | None,
) -> None:
    console = a_console(terminal=False)

    a_view(console=console).foreseen(forecast, lambda now: None)

    assert printed(console) == ""


# --- elsewhere -----------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_every_five_seconds() -> None:
    console = a_console(terminal=False)
    view = a_view(run_started(), *ran("split", 2.0, 2.0), *started("left", 2.0), console=console)
    view.foreseen(None, lambda now: EndForecast(14.0, 11.4, 300.0))

    for tick in range(4 * 11 + 1):
        view.refresh(tick / 4)
    view.close()

    assert printed(console) == (
        "1 of 4 done, 1 running, 0 failed, 0.2/s, about 14 s left (11 s to 5 min 00 s)\n"
        "1 of 4 done, 1 running, 0 failed, 0.1/s, about 14 s left (11 s to 5 min 00 s)\n"
    )


def test_a_line_tells_what_was_skipped_and_failed_and_keeps_silent_on_what_nobody_knows() -> None:
    console = a_console(terminal=False)
    skipped = TaskSkipped(0.0, TaskId("split"))
    view = a_view(skipped, *error("left", 1.0), failed("left", 1.0), console=console)

    view.refresh(0.0)
    view.refresh(5.0)

    assert printed(console) == "1 of 4 done (1 skipped), 0 running, 1 failed, 0.2/s\n"


def test_a_line_tells_what_was_removed() -> None:
    console = a_console(terminal=False)
    view = a_view(removed("left", 1.0), console=console)

    view.refresh(0.0)
    view.refresh(5.0)

    assert printed(console) == "0 of 4 done, 0 running, 0 failed, 1 removed, 0.0/s\n"


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    console = a_console()
    console._environ = {"TERM": "dumb"}
    view = a_view(run_started(), console=console)

    view.refresh(0.0)
    view.refresh(5.0)

    assert printed(console) == "0 of 4 done, 0 running, 0 failed, 0.0/s\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_quiet_but_still_counts(terminal: bool) -> None:
    console = a_console(terminal=terminal)
    view = a_view(run_started(), *ran("split", 1.0), console=console, quiet=True)

    view.refresh(0.0)
    view.refresh(100.0)
    view.close()

    assert printed(console) == ""
    assert view.progress.counts().complete == 1


class _Gone(StringIO):
    """A terminal whose window was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_is_gone_does_not_end_the_run(terminal: bool) -> None:
    console = a_console(terminal=terminal)
    console.file = _Gone()
    view = a_view(run_started(), console=console)

    view.refresh(0.0)
    view.refresh(5.0)
    view.add(started("split", 6.0)[0])
    view.refresh(10.0)
    view.close()

    assert view.progress.counts().staging == 1


def test_an_ascii_terminal_gets_an_ascii_bar() -> None:
    class Ascii(StringIO):
        encoding = "ascii"

    console = a_console()
    console.file = Ascii()
    view = a_view(run_started(), *ran("split", 1.0), console=console)

    view.refresh(1.0)

    assert printed(console).isascii()
    assert re.search("-{5,}", printed(console))
