import re
from xml.etree import ElementTree

import numpy as np
import pytest

from dataward.model.events import Event, NodeFacts, RunEnded, RunStarted
from dataward.model.workflow import TaskId
from dataward.reports.attempts import Attempt, AttemptBook, Step
from dataward.reports.chart_frame import BAR_COLOURS, COLOURS, PLOT
from dataward.reports.core_time import CoreTime, Outage, Use, core_time
from dataward.reports.gantt_bars import Bar, merged, pack
from dataward.reports.gantt_svg import NODES_MAX, TITLES_MAX, draw_run
from dataward.reports.run_summary import RunTally
from dataward.reports.time_axis import time_marks
from reports.runs import a_run, a_start, began, ended, runs, simulated

SVG = "{http://www.w3.org/2000/svg}"


def attempts_of(events: list[Event] | tuple[Event, ...]) -> list[Attempt]:
    over: list[Attempt] = []

    def on_step(attempt: Attempt, step: Step, at: float) -> None:
        if step is Step.ENDED:
            over.append(attempt)

    book = AttemptBook(on_step)
    for event in events:
        book.add(event)
    return over


def use_of_run(slices: int) -> CoreTime:
    outages = [Outage("b", 8.0, 10.0)]
    edges = np.linspace(0.0, 10.0, slices + 1)
    return core_time(attempts_of(a_run()), outages, {"a": 2, "b": 1}, {"a": 0, "b": 1}, edges, {})


# --- use of cores -----------------------------------------------------------------------------


def test_core_time_of_a_run_done_by_hand() -> None:
    use = use_of_run(10)

    a, b = use.spent[Use.USEFUL]
    assert a.tolist() == [0, 0, 1, 1, 1.5, 1, 1, 1, 1.5, 1]
    assert b.tolist() == [0] * 10
    assert use.spent[Use.BEATEN][1].tolist() == [0, 0.5, 1, 1, 0, 0, 0, 0, 0, 0]
    assert use.spent[Use.BROKEN].tolist() == [
        [0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 1, 0, 0],
    ]
    assert use.spent[Use.STARVED].tolist() == [
        [1, 1, 0, 1, 0, 0, 0, 0, 0, 0],
        [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert use.spent[Use.DOWN][1].tolist() == [0] * 8 + [1, 1]
    assert use.there_were.tolist() == [[2] * 10, [1] * 10]


def test_a_replica_that_wins_is_useful_and_told_apart() -> None:
    events = [a_start(a=1), began(0, "x", "a", replica=True), runs(0, "x", "a")]

    picture = drawn([*events, ended(5, "x", "a"), RunEnded(10.0, 1, 0, 0, 0)])

    assert {"useful 0%", "useful, by a replica 50%", "50%"} <= set(words(picture))
    assert widths(picture, Use.REPLICA.value) == pytest.approx([PLOT / 2], abs=0.6)


def test_removed_tasks_are_counted_in_the_heading() -> None:
    picture = drawn([a_start(a=1), RunEnded(10.0, 0, 0, 0, 0, removed=2)])

    assert any(", 2 removed" in line for line in words(picture))


@pytest.mark.parametrize("slices", [1, 7, 374])
def test_slices_add_up_to_what_the_summary_says(slices: int) -> None:
    events = simulated(crashes=((10.0, "n1", 40.0),))
    tally = RunTally()
    for event in events:
        tally.add(event)
    run = tally.summary()
    nodes = dict.fromkeys(run.node_busy_seconds, 4)
    edges = np.linspace(0.0, run.makespan_seconds, slices + 1)

    use = core_time(attempts_of(events), [], nodes, dict.fromkeys(nodes, 0), edges, {})

    spent = {kind: float(seconds.sum()) for kind, seconds in use.spent.items()}
    assert spent[Use.USEFUL] + spent[Use.REPLICA] == pytest.approx(run.useful_seconds)
    assert spent[Use.BEATEN] + spent[Use.BROKEN] == pytest.approx(run.wasted_seconds)
    assert spent[Use.STARVED] == pytest.approx(run.starved_seconds)
    assert sum(use.spent.values()).max() <= use.there_were.max() * (1 + 1e-9)


# --- lanes ------------------------------------------------------------------------------------


def an_attempt(task: str = "t") -> Attempt:
    return Attempt(TaskId(task), task, "a", False, 0.0)


def places(*spans: tuple[float, float, int]) -> list[tuple[float, int, int]]:
    bars = pack([(start, stop, wanted, "run", an_attempt()) for start, stop, wanted in spans])
    return [(bar.start, bar.first_lane, bar.lanes) for bar in bars]


def test_a_span_takes_the_lowest_lane_that_is_free() -> None:
    assert places((0, 4, 1), (1, 2, 1), (2, 5, 1), (3, 6, 1), (4, 5, 1)) == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 1, 1),
        (3, 2, 1),
        (4, 0, 1),
    ]


def test_a_task_on_several_cores_takes_several_lanes() -> None:
    assert places((0, 2, 1), (0, 9, 1), (1, 9, 1), (2, 5, 2)) == [
        (0, 0, 1),
        (0, 1, 1),
        (1, 2, 1),
        (2, 0, 1),
        (2, 3, 1),
    ]
    assert places((0, 2, 3)) == [(0, 0, 3)]


def test_slivers_join_a_like_neighbour_and_nothing_else_does() -> None:
    def bar(start: float, stop: float, lane: int = 0, kind: str = "run") -> Bar:
        return Bar(start, stop, lane, 1, kind, an_attempt())

    bars = [bar(0, 5), bar(5, 9), bar(9, 9.1), bar(9.2, 9.3), bar(9.3, 9.4, kind="wasted")]
    bars += [bar(9.3, 9.4, lane=1), bar(11, 11.1)]

    kept = merged(bars, 0.5)

    assert [(b.start, b.stop, b.first_lane, b.kind) for b in kept] == [
        (0, 5, 0, "run"),
        (5, 9.3, 0, "run"),
        (9.3, 9.4, 0, "wasted"),
        (9.3, 9.4, 1, "run"),
        (11, 11.1, 0, "run"),
    ]


# --- time axis --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_seconds", "first", "last"),
    [
        (0.00003, "5 µs", "30 µs"),
        (0.05, "5 ms", "50 ms"),
        (0.3, "50 ms", "300 ms"),
        (1.0, "100 ms", "1 s"),
        (10.0, "1 s", "10 s"),
        (100.0, "10 s", "1:40 min"),
        (399.0, "1 min", "6 min"),
        (4454.0, "10 min", "1:10 h"),
        (86400.0, "2 h", "1 d"),
        (30 * 86400.0, "5 d", "30 d"),
        (3e9, "5,000 d", "30,000 d"),
    ],
)
def test_marks_of_the_time_axis_are_round(end_seconds: float, first: str, last: str) -> None:
    marks = time_marks(end_seconds)

    assert marks[0] == (0.0, "0")
    assert (marks[1][1], marks[-1][1].replace("24 h", "1 d")) == (first, last)
    assert len(marks) <= 13
    assert marks[-1][0] <= end_seconds * (1 + 1e-9)


# --- the picture ------------------------------------------------------------------------------


def drawn(events: list[Event] | tuple[Event, ...], **cores: int) -> ElementTree.Element:
    picture = draw_run(events, {TaskId(task): count for task, count in cores.items()})
    return ElementTree.fromstring(picture)


def words(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def widths(picture: ElementTree.Element, kind: str) -> list[float]:
    """Of all bars of a kind, in pixels, longest first."""
    for group in picture.iter(f"{SVG}g"):
        if group.get("fill") == BAR_COLOURS[kind]:
            paths = "".join(path.get("d", "") for path in group.iter(f"{SVG}path"))
            return sorted((float(w) for w in re.findall(r"h([\d.]+)v", paths)), reverse=True)
    return []


def test_the_heading_tells_of_the_run() -> None:
    said = words(drawn(a_run()))

    assert "by hand" in said
    assert "adage on 2 nodes with 3 cores, seed 7; 3 of 3 tasks complete" in said
    assert {"10.0 s", "30%", "20%", "240 B", "5.50 s"} <= set(said)
    assert {"a", "b", "0%", "50%", "100%", "5 s"} <= set(said)


def test_the_key_tells_what_became_of_all_core_time() -> None:
    said = words(drawn(a_run()))

    assert "useful 30%" in said
    assert "wasted: another attempt won 8%" in said
    assert "wasted: failed or crashed 10%" in said
    assert "idle, inputs on their way 13%" in said
    assert "node down 7%" in said
    assert "idle 32%" in said
    assert "crash" in said


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    picture = drawn(a_run())

    second = PLOT / 10
    assert widths(picture, "useful") == pytest.approx([4 * second, 3 * second, 2 * second], abs=0.6)
    assert widths(picture, Use.BEATEN.value) == pytest.approx([2.5 * second], abs=0.6)
    assert widths(picture, Use.BROKEN.value) == pytest.approx([2 * second, second], abs=0.6)
    assert widths(picture, "stage-in") == pytest.approx([2 * second, second, second], abs=0.6)
    assert widths(picture, "stage-out") == pytest.approx([second / 2, second / 2], abs=0.6)


def test_a_bar_tells_its_story_under_the_pointer() -> None:
    stories = [title.text or "" for title in drawn(a_run()).iter(f"{SVG}title")]

    assert (
        "y on a: useful; began at 3.00 s, stage-in 1.00 s, waiting for a core 500 ms, "
        "running 4.00 s, stage-out 500 ms; won"
    ) in stories
    assert any(story.startswith("x on b, a replica: wasted") for story in stories)
    assert "b was down for 2.00 s" in stories


def test_many_nodes_are_drawn_in_rows_of_several() -> None:
    nodes = tuple(NodeFacts(f"n{i:03}", 1, 1.0, "site") for i in range(NODES_MAX + 1))
    start = RunStarted(0.0, "many", 1, "adage", 1, nodes)
    events = [start, began(0, "x", "n000"), runs(0, "x", "n000"), ended(5, "x", "n000")]

    picture = drawn([*events, RunEnded(10.0, 1, 0, 0, 0)])

    assert "n000 – n001" in words(picture)
    stories = [title.text for title in picture.iter(f"{SVG}title")]
    assert stories[0] == "n000 – n001 (2 nodes): useful 25%"
    assert stories[1] == "n002 – n003 (2 nodes): idle"


def test_a_run_that_breaks_off_says_so_and_shows_what_was_under_way() -> None:
    picture = drawn(a_run()[:11])

    assert any("breaks off" in line for line in words(picture))
    assert widths(picture, Use.UNDER_WAY.value) == pytest.approx([PLOT / 4], abs=0.6)


def test_names_from_outside_cannot_break_the_drawing() -> None:
    evil = RunStarted(0, "<script>&", 1, "\"'<b>", 1, (NodeFacts("<n>&", 1, 1.0, ""),))
    events = [evil, began(0, "</title>&", "<n>&"), runs(0, "</title>&", "<n>&")]

    picture = drawn([*events, ended(1, "</title>&", "<n>&"), RunEnded(2.0, 1, 0, 0, 0)])

    assert "<script>&" in words(picture)


def test_a_list_without_nodes_is_drawn_too() -> None:
    assert words(drawn([])) == ["The event list names no node."]


def test_a_run_of_no_length_is_drawn_too() -> None:
    assert "idle 100%" in words(drawn([a_start(a=1), RunEnded(0.0, 0, 0, 0, 0)]))


def test_a_run_is_always_drawn_alike() -> None:
    assert draw_run(simulated()) == draw_run(simulated())


def test_ten_thousand_tasks_make_a_file_of_a_few_megabytes() -> None:
    events: list[Event] = [a_start(10_000, **{f"n{i}": 4 for i in range(8)})]
    for i in range(10_000):
        task, node, at = f"task-{i:05}", f"n{i % 8}", float(i // 32)
        events += [began(at, task, node), runs(at + 0.1, task, node), ended(at + 0.9, task, node)]
    events.append(RunEnded(313.0, 10_000, 0, 0, 0))

    picture = draw_run(events)

    assert len(picture) < 2_000_000
    assert picture.count("<title>") <= TITLES_MAX


def test_a_task_on_two_cores_is_drawn_on_both() -> None:
    events = [a_start(a=4), began(0, "x", "a"), runs(0, "x", "a"), ended(5, "x", "a")]

    picture = drawn([*events, RunEnded(10.0, 1, 0, 0, 0)], x=2)

    assert "useful 25%" in words(picture)


def test_every_use_has_a_colour_of_its_own() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS) == len(Use)
