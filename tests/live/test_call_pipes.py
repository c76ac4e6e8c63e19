"""The pipes between a caller and a process that makes calls, with both ends in this process."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataward.live.call_pipes import MESSAGE_BYTES_MAX, TICKETS_MAX, CallerPipes, RunnerPipes
from dataward.live.call_results import InFile, Result

LARGE = bytes(MESSAGE_BYTES_MAX)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[CallerPipes, RunnerPipes]]:
    caller = CallerPipes(str(tmp_path / "slot"))
    runner = RunnerPipes(str(tmp_path / "slot"))
    yield caller, runner
    runner.close()
    caller.close()
    assert list(tmp_path.glob("slot.*s")) == []


def test_a_ticket_is_taken_by_the_process_or_taken_back_but_not_both(ends):
    caller, runner = ends
    caller.send(1, b"calls", 3)

    assert runner.take_ticket() == (1, 0)
    assert caller.take_back() == [(1, 1), (1, 2)]
    assert caller.take_back() == []


@pytest.mark.parametrize("payload", [b"small", LARGE])
def test_a_bundle_arrives_and_one_before_it_that_was_taken_back_is_skipped(ends, payload):
    caller, runner = ends
    caller.send(1, payload, 2)
    caller.take_back()
    caller.remove(1)
    caller.send(2, payload + b"!", 1)

    assert runner.take_ticket() == (2, 0)
    assert runner.bundle(2) == payload + b"!"


def test_a_bundles_file_is_there_until_the_bundle_is_removed(ends, tmp_path):
    caller, _ = ends
    before = set(tmp_path.iterdir())
    caller.send(1, b"small", 1)
    assert set(tmp_path.iterdir()) == before

    caller.send(2, LARGE, 1)
    (file,) = set(tmp_path.iterdir()) - before
    caller.remove(1)
    assert file.read_bytes() == LARGE
    caller.remove(2)

    assert set(tmp_path.iterdir()) == before


def test_a_bundle_for_which_there_is_no_room_is_not_sent(ends):
    caller, _ = ends
    bundle = 1
    while caller.send(bundle, b"", TICKETS_MAX):
        bundle += 1

    assert len(caller.take_back()) == (bundle - 1) * TICKETS_MAX


def test_results_come_whole_small_ones_in_the_pipe_and_large_ones_in_files(ends, tmp_path):
    caller, runner = ends
    runner.answer(1, 0, Result(b"small"), 0.5)
    path = runner.answer(1, 1, Result(LARGE), 0.25)
    runner.answer(1, 2, Result(LARGE, "traceback"), 0.0)
    runner.answer(1, 3, Result(b"error", "traceback"), 0.0)

    made = caller.made()

    assert [(one.place, one.seconds) for one in made] == [(0, 0.5), (1, 0.25), (2, 0.0), (3, 0.0)]
    assert [one.result for one in made] == [
        Result(b"small"),
        InFile(path),
        Result(LARGE, "traceback"),
        Result(b"error", "traceback"),
    ]
    assert InFile(path).read() == LARGE
    assert [file.name for file in tmp_path.glob("slot.[0-9]*")] == ["slot.1.1"], "errors are read"


def test_a_result_of_which_only_the_beginning_was_read_is_whole_the_next_time(ends, tmp_path):
    """Pipes hold more than is read at once where pages are large; here they are told to."""
    caller, runner = ends
    results = os.open(tmp_path / "slot.results", os.O_RDWR)
    fcntl.fcntl(results, fcntl.F_SETPIPE_SZ, 1 << 18)
    os.close(results)
    sent = [Result(bytes([place]) * 997) for place in range(150)]
    for place, result in enumerate(sent):
        runner.answer(1, place, result, 0.0)

    made = caller.made()

    assert [one.place for one in made] == list(range(150))
    assert [one.result for one in made] == sent
    assert caller.made() == []


def test_the_process_finds_no_more_calls_when_the_caller_has_closed_the_pipes(tmp_path):
    caller = CallerPipes(str(tmp_path / "slot"))
    runner = RunnerPipes(str(tmp_path / "slot"))

    caller.close()

    assert runner.take_ticket() is None
    runner.close()
