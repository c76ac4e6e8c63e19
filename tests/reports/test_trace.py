import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dataward.errors import OutputError
from dataward.model.events import Event, FaultInjected, NodeLost, TaskReopened
from dataward.model.workflow import TaskId
from dataward.reports.trace import chrome_trace, write_chrome_trace
from reports.runs import a_run, a_start, began, runs, simulated, staged

CRASHES = ((10.0, "n1", 40.0), (20.0, "n2", 25.0))
Record = dict[str, Any]


def traced(events: list[Event] | tuple[Event, ...]) -> list[Record]:
    document = json.loads(b"".join(chrome_trace(events)))
    records: list[Record] = document["traceEvents"]
    return records


def names(records: list[Record], kind: str) -> dict[int, str]:
    return {r["pid"]: r["args"]["name"] for r in records if r["name"] == kind}


def spans(records: list[Record], category: str = "") -> list[Record]:
    return [r for r in records if r["ph"] == "X" and r["cat"] in (category or r["cat"], category)]


def test_nodes_are_processes_in_the_order_of_their_names() -> None:
    records = traced([a_start(b=1, c=1, a=1)])

    processes = names(records, "process_name")
    order = {r["pid"]: r["args"]["sort_index"] for r in records if "sort_index" in r["name"]}
    assert processes == {1: "run of by hand", 2: "a", 3: "b", 4: "c"}
    assert [processes[pid] for pid in sorted(order, key=lambda pid: order[pid])][1:] == [*"abc"]


def test_an_attempt_is_its_steps_one_after_another() -> None:
    records = traced(a_run())

    steps = [r for r in spans(records) if r["args"].get("attempt") == "a.1.2.y"]
    assert [(r["cat"], r["name"], r["ts"], r["dur"]) for r in steps] == [
        ("stage-in", "stage-in y", 3_000_000, 1_000_000),
        ("waiting for a core", "waiting for a core y", 4_000_000, 500_000),
        ("running", "running y", 4_500_000, 4_000_000),
        ("stage-out", "stage-out y", 8_500_000, 500_000),
    ]


def test_what_an_attempt_came_to_is_with_it() -> None:
    records = traced(a_run())

    (replica,) = [r for r in spans(records, "running") if r["args"].get("replica")]
    assert replica["args"]["outcome"] == "cancelled"
    assert replica["args"]["use"] == "wasted: another attempt won"


def test_an_attempt_on_a_node_that_crashes_ends_there() -> None:
    records = traced(a_run())

    (lost,) = [r for r in spans(records, "running") if r["args"]["outcome"] == "crashed"]
    assert (lost["ts"], lost["dur"]) == (6_000_000, 2_000_000)


def test_what_is_under_way_when_the_list_breaks_off_ends_at_its_last_event() -> None:
    events = [a_start(a=1), began(0.0, "x", "a"), staged(1.0, "x", "a"), runs(1.0, "x", "a")]

    records = traced([*events, FaultInjected(3.0, "partition", "a | b")])

    (running,) = spans(records, "running")
    assert (running["dur"], running["args"]["outcome"]) == (2_000_000, "under way")


def test_transfers_have_threads_of_their_own() -> None:
    records = traced(a_run())

    moved = [(r["name"], r["ts"], r["dur"], r["args"]["bytes"]) for r in spans(records, "transfer")]
    assert moved == [
        ("from origin", 500_000, 500_000, 100),
        ("from origin", 0, 1_800_000, 100),
        ("from b", 3_400_000, 500_000, 40),
    ]
    executors = {(r["pid"], r["tid"]) for r in spans(records) if r["cat"] != "transfer"}
    assert executors.isdisjoint({(r["pid"], r["tid"]) for r in spans(records, "transfer")})


def test_moments_of_note_are_marked() -> None:
    extra = [TaskReopened(9.5, TaskId("x"), 1), FaultInjected(9.6, "slow disk", "a")]

    records = traced([*a_run()[:-1], *extra, a_run()[-1]])

    marked = [(r["name"], r["ts"], r["s"]) for r in records if r["ph"] == "i"]
    assert ("node crashed", 8_000_000, "p") in marked
    assert ("task taken over", 8_000_000, "p") in marked
    assert ("task reopened", 9_500_000, "g") in marked
    assert ("fault: slow disk", 9_600_000, "g") in marked


def test_running_tasks_are_counted_by_node_and_in_all() -> None:
    records = traced(a_run())

    counts = defaultdict(list)
    for r in records:
        if r["ph"] == "C":
            counts[r["pid"]].append(r["args"]["running"])
    assert counts[1] == [1, 2, 3, 2, 1, 2, 1, 2, 1, 2, 1, 0]
    assert counts[3] == [1, 0, 1, 0]


@pytest.mark.parametrize("crashes", [(), CRASHES])
def test_spans_of_a_thread_never_overlap(crashes: tuple[tuple[float, str, float], ...]) -> None:
    records = traced(simulated(crashes=crashes))

    threads = defaultdict(list)
    for r in spans(records):
        assert r["dur"] >= 0
        threads[r["pid"], r["tid"]].append((r["ts"], r["ts"] + r["dur"]))
    named = {(r["pid"], r["tid"]) for r in records if r["name"] == "thread_name"}
    assert threads.keys() == named
    for times in threads.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(times)))


def test_attempts_take_the_lowest_free_executor() -> None:
    records = traced(simulated())

    executors = {r["tid"] for r in spans(records, "running")}
    assert executors == set(range(1, max(executors) + 1))
    assert len(executors) <= 4 + 1 + 4  # cores, one staging ahead, and commits being answered


def test_the_same_run_makes_the_same_trace() -> None:
    assert [*chrome_trace(simulated())] == [*chrome_trace(simulated())]


def test_no_events_make_a_valid_trace() -> None:
    assert traced([]) == []


def test_a_long_trace_comes_in_pieces() -> None:
    pieces = [*chrome_trace(simulated("montage", 300, 4))]

    assert len(pieces) > 3
    assert json.loads(b"".join(pieces))["otherData"]["strategy"] == "adage"


def test_a_trace_is_written_to_a_file(tmp_path: Path) -> None:
    write_chrome_trace(a_run(), tmp_path / "there" / "trace.json")

    assert (tmp_path / "there" / "trace.json").read_bytes() == b"".join(chrome_trace(a_run()))
    with pytest.raises(OutputError):
        write_chrome_trace([NodeLost(1.0, "a")], tmp_path)
