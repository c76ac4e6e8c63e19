"""Attempts under way: each counts until it is over, even one that never had a turn."""

from collections.abc import Callable

import pytest

from dataward.kernel import Cancelled
from dataward.node.attempts import Attempts
from node.fake_world import FakeWorld, a_queue_entry


class Place:
    """A world with attempts that go on until they are cancelled, or told to end."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.dropped: list[str] = []
        self.attempts = Attempts(self.world.kernel, self.dropped.append)
        self.may_end = self.world.kernel.flag()
        self.cancelled: list[str] = []

    async def _attempt(self, task: str) -> None:
        try:
            await self.may_end.wait()
        except Cancelled:
            self.cancelled.append(task)
            raise
        finally:
            self.attempts.end(task)

    def begin(self, task: str, generation: int = 1) -> None:
        """Begin an attempt, which has not had its first turn yet."""
        entry = a_queue_entry(task, generation=generation)
        self.attempts.begin(entry, self.world.kernel.spawn(self._attempt(task)))


CANCEL: list[Callable[[Attempts], None]] = [
    lambda attempts: attempts.cancel("t", 1),
    lambda attempts: attempts.cancel_all(),
    lambda attempts: attempts.cancel_unstarted(),
]
each_way = pytest.mark.parametrize("cancel", CANCEL, ids=["one", "all", "unstarted"])


def test_an_attempt_is_under_way_until_it_says_that_it_is_over() -> None:
    place = Place()

    place.begin("t")
    assert "t" in place.attempts
    assert len(place.attempts) == 1
    place.may_end.set()
    place.world.pass_time()

    assert "t" not in place.attempts
    assert not place.attempts


@each_way
def test_one_cancelled_before_its_first_turn_is_over_at_once(
    cancel: Callable[[Attempts], None],
) -> None:
    place = Place()
    place.begin("t")

    cancel(place.attempts)

    assert not place.attempts
    assert place.cancelled == []  # nothing of it ever ran
    assert place.dropped == ["t"]


@each_way
def test_one_cancelled_later_is_under_way_until_it_has_cleaned_up(
    cancel: Callable[[Attempts], None],
) -> None:
    place = Place()
    place.begin("t")
    place.world.pass_time()

    cancel(place.attempts)
    assert len(place.attempts) == 1
    place.world.pass_time()

    assert not place.attempts
    assert place.cancelled == ["t"]
    assert place.dropped == []


def test_whoever_waits_for_a_place_hears_of_one_cancelled_before_its_first_turn() -> None:
    place = Place()
    waiting = place.world.start(place.attempts.one_moved_on())
    place.begin("t")

    place.attempts.cancel_all()
    place.world.pass_time()

    assert waiting.done()


def test_waiting_for_one_to_end_does_not_count_those_that_ended_before() -> None:
    place = Place()
    place.begin("a")
    place.world.pass_time()
    place.may_end.set()
    place.world.pass_time()
    place.may_end.clear()
    place.begin("b")

    waiting = place.world.start(place.attempts.one_moved_on())
    assert not waiting.done()
    place.may_end.set()
    place.world.pass_time()

    assert waiting.done()


def test_a_task_is_over_when_its_attempt_is_whether_it_ended_or_was_cancelled() -> None:
    place = Place()
    for task in ("ends", "cancelled"):
        place.begin(task)
    place.world.pass_time()

    waiting = [place.world.start(place.attempts.over(task)) for task in ("ends", "cancelled", "no")]
    assert [fiber.done() for fiber in waiting] == [False, False, True]
    place.attempts.cancel("cancelled", 1)
    place.world.pass_time()
    assert [fiber.done() for fiber in waiting] == [False, True, True]
    place.may_end.set()
    place.world.pass_time()

    assert [fiber.done() for fiber in waiting] == [True, True, True]


def test_only_an_attempt_for_that_completion_or_an_earlier_one_is_cancelled() -> None:
    place = Place()
    for generation in (1, 2, 3):
        place.begin(f"t{generation}", generation)

    for generation in (1, 2, 3):
        place.attempts.cancel(f"t{generation}", 2)
    place.attempts.cancel("unknown", 2)

    assert "t3" in place.attempts
    assert len(place.attempts) == 1


def test_of_all_attempts_those_whose_process_runs_may_go_on() -> None:
    place = Place()
    for task in ("runs", "stages"):
        place.begin(task)
    place.world.pass_time()
    place.attempts.start("runs")
    place.attempts.start("gone")  # told a little later than it ended

    assert place.attempts.started == 1
    place.attempts.cancel_unstarted()
    place.world.pass_time()

    assert place.cancelled == ["stages"]
    assert "runs" in place.attempts
    place.attempts.cancel_all()
    place.world.pass_time()
    assert not place.attempts


# --- calling off ---------------------------------------------------------------------------------


def test_an_attempt_that_waits_for_a_core_can_be_called_off() -> None:
    place = Place()
    place.begin("t")
    place.world.pass_time()
    place.attempts.begun("t", "n0.1.7")
    place.attempts.stage("t")

    assert place.attempts.call_off("t") == "n0.1.7"
    assert place.attempts.is_called_off("t")
    place.world.pass_time()

    assert place.cancelled == ["t"]
    assert not place.attempts.is_called_off("t")


def test_one_is_called_off_once() -> None:
    place = Place()
    place.begin("t")
    place.world.pass_time()
    place.attempts.begun("t", "n0.1.7")
    place.attempts.stage("t")

    place.attempts.call_off("t")

    assert place.attempts.call_off("t") is None


def test_one_whose_inputs_are_missing_or_whose_process_runs_is_not_called_off() -> None:
    place = Place()
    place.begin("stages")
    place.begin("runs")
    place.world.pass_time()
    place.attempts.begun("runs", "n0.1.7")
    place.attempts.stage("runs")
    place.attempts.start("runs")

    assert [place.attempts.call_off(task) for task in ("stages", "runs", "unknown")] == [None] * 3
    place.world.pass_time()

    assert place.cancelled == []


def test_who_leaves_calls_off_what_waits_for_its_inputs_but_not_what_the_store_does_not_know() -> (
    None
):
    place = Place()
    for task in ("stages", "asks", "runs"):
        place.begin(task)
    place.world.pass_time()
    place.attempts.begun("stages", "n0.1.7")
    place.attempts.begun("runs", "n0.1.8")
    place.attempts.start("runs")

    off = [place.attempts.call_off(task, staging=True) for task in ("stages", "asks", "runs")]
    place.world.pass_time()

    assert off == ["n0.1.7", None, None]
    assert place.cancelled == ["stages"]
