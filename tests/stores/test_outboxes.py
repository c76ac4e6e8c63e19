"""Which outbox a patrol is given, and when it is given again."""

from dataward.stores.outboxes import Outboxes

STALE_SECONDS, HOLD_SECONDS = 10.0, 5.0


def outboxes_filled(**since: float) -> Outboxes:
    outboxes = Outboxes()
    for task, at in since.items():
        outboxes.fill(task, at)
    return outboxes


def given(outboxes: Outboxes, now: float) -> list[str]:
    """All that one patrol is given."""
    found = []
    while (task := outboxes.give_next(now, STALE_SECONDS, HOLD_SECONDS)) is not None:
        found.append(task)
    return found


def test_an_outbox_is_given_once_it_is_stale_the_oldest_first() -> None:
    outboxes = outboxes_filled(a=0.0, b=1.0, c=2.0)

    assert given(outboxes, 9.0) == []
    assert given(outboxes, 11.0) == ["a", "b"]


def test_an_outbox_that_was_given_is_given_again_if_it_is_not_emptied_in_time() -> None:
    outboxes = outboxes_filled(a=0.0)
    given(outboxes, 10.0)

    assert given(outboxes, 14.0) == []
    assert given(outboxes, 15.0) == ["a"]
    assert given(outboxes, 19.0) == []


def test_given_and_stale_outboxes_come_in_the_order_in_which_they_are_due() -> None:
    outboxes = outboxes_filled(a=0.0, early=4.0, late=6.0)
    given(outboxes, 10.0)  # only a: due again at 15

    assert given(outboxes, 20.0) == ["early", "a", "late"]


def test_an_outbox_that_was_emptied_is_not_given_whoever_has_it() -> None:
    outboxes = outboxes_filled(a=0.0, b=0.0)
    outboxes.empty("a")

    assert given(outboxes, 100.0) == ["b"]
    outboxes.empty("b")

    assert given(outboxes, 200.0) == []
    assert len(outboxes) == 0


def test_an_outbox_filled_again_is_as_new() -> None:
    outboxes = outboxes_filled(a=0.0, b=1.0)
    outboxes.fill("a", 2.0)

    assert given(outboxes, 11.0) == ["b"]
    assert given(outboxes, 12.0) == ["a"]


def test_a_task_counts_once_whether_its_outbox_was_given_or_not() -> None:
    outboxes = outboxes_filled(a=0.0, b=9.0)
    given(outboxes, 10.0)

    assert "a" in outboxes
    assert "b" in outboxes
    assert "c" not in outboxes
    assert len(outboxes) == 2

    outboxes.fill("a", 11.0)

    assert len(outboxes) == 2
