"""The book of promises: pages of living runs, and cores that one run uses at a time."""

import os
import select
from pathlib import Path

import msgspec

from dataward.deadlines.promising import NodeSchedule
from dataward.live.promise_book import (
    BookedCores,
    BookPage,
    BookSlot,
    PromiseBook,
    book_directory,
    drain_news,
)
from dataward.model.ids import NodeId
from dataward.model.workflow import TaskId
from dataward.world import TheirSlot

CLOCK = 1000.0


def two_books(tmp_path: Path) -> tuple[PromiseBook, PromiseBook]:
    return PromiseBook(tmp_path), PromiseBook(tmp_path)


def test_the_book_is_in_the_users_state_directory() -> None:
    there = {"XDG_STATE_HOME": "/there", "HOME": "/home/me"}

    assert book_directory(there) == Path("/there/dataward/promises")
    assert book_directory({"HOME": "/home/me"}) == Path("/home/me/.local/state/dataward/promises")


def test_what_others_have_promised_is_counted_core_by_core(tmp_path: Path) -> None:
    mine, theirs = two_books(tmp_path)
    theirs.write([BookSlot(1, CLOCK + 9.0, 2.0)], {0: CLOCK + 3.0})

    with mine.admission():
        cores = mine.cores([NodeSchedule(NodeId("n0"))] * 2, CLOCK)

    assert [core.free_from for core in cores] == [3.0, 0.0]
    assert [[slot[:2] for slot in core.queue] for core in cores] == [[], [(9.0, 2.0)]]
    assert mine.promised(1, CLOCK) == [TheirSlot(9.0, 2.0, False)]


def test_a_page_of_a_run_that_has_ended_is_removed(tmp_path: Path) -> None:
    gone = tmp_path / "1-2.page"
    gone.write_bytes(msgspec.json.encode(BookPage(os.getpid(), 1.0, (BookSlot(0, 9.0, 2.0),))))
    (tmp_path / "3-4.page").write_text("{")
    mine = PromiseBook(tmp_path)

    mine.read()

    assert not mine.has_others
    assert not gone.exists()


def test_a_core_is_used_by_one_run_at_a_time(tmp_path: Path) -> None:
    one, other = two_books(tmp_path)

    assert one.take(0)
    assert not other.take(0)
    assert other.take(1)
    one.give_back(0)
    assert other.take(0)


def test_closing_the_book_gives_everything_back(tmp_path: Path) -> None:
    one, other = two_books(tmp_path)
    one.write([BookSlot(0, 9.0, 2.0)], {})
    assert one.take(0)

    one.close()
    other.read()

    assert not other.has_others
    assert other.take(0)
    one.write([BookSlot(0, 9.0, 2.0)], {})
    other.read()
    assert not other.has_others


def test_pages_and_free_cores_are_news_but_failed_attempts_are_not(tmp_path: Path) -> None:
    one, other = two_books(tmp_path)
    news = other.watch()

    def has_news() -> bool:
        found = bool(select.select([news], [], [], 0)[0])
        drain_news(news)
        return found

    try:
        one.take(0)
        has_news()  # the file of the core was made
        assert not other.take(0)
        assert not has_news()
        one.give_back(0)
        assert has_news()
        one.write([BookSlot(0, 9.0, 2.0)], {})
        assert has_news()
        one.write([BookSlot(0, 9.0, 2.0)], {})
        assert not has_news()
        one.close()
        assert has_news()
    finally:
        os.close(news)


def test_a_node_writes_what_its_cores_have_promised_and_wait_for(tmp_path: Path) -> None:
    mine, theirs = two_books(tmp_path)
    theirs.write([BookSlot(0, 9.0, 2.0)], {})
    mine.read()
    cores = BookedCores(mine, 2, 0.0)
    mine.flush()
    theirs.read()
    assert not theirs.has_others  # the node has not said anything yet

    cores.tell([[(8.0, 1.0, TaskId("a")), (9.0, 1.0, TaskId("b"))], []], {0: 8.0})
    assert cores.take(1, 5.0)
    mine.flush()
    theirs.read()

    found = theirs.promised(2, 0.0)
    assert [(slot.seconds, slot.is_ready) for slot in found] == [(1.0, True), (1.0, False)]
    assert not theirs.take(3)
