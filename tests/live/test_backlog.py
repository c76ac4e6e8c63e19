"""Work on files that nobody waits for."""

from dataward.live.backlog import Backlog


def test_work_is_done_in_order_also_what_is_added_meanwhile():
    backlog, done = Backlog(), []

    def first() -> None:
        backlog.add(lambda: done.append("second"))
        done.append("first")

    backlog.add(first)
    backlog.add(lambda: done.append("third"))
    backlog.close()

    assert done[0] == "first"
    assert sorted(done) == ["first", "second", "third"]
    assert backlog.error is None


def test_after_an_error_nothing_more_is_done():
    backlog, done = Backlog(), []

    def fail() -> None:
        raise OSError("no room")

    backlog.add(fail)
    backlog.add(lambda: done.append("more"))
    backlog.close()

    assert str(backlog.error) == "no room"
    assert not done
