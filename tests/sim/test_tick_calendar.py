"""The calendar of a world whose time passes in ticks."""

from dataward.sim.tick_calendar import TICKS_PER_SECOND, TickCalendar


def test_handlers_come_in_the_order_in_which_they_were_noted_and_arrivals_after_them() -> None:
    calendar, seen = TickCalendar[str](), []
    calendar.arrive(3, "c")
    calendar.at(3, seen.append, "a")
    calendar.at(3, seen.append, "b")
    calendar.arrive(3, "d")
    calendar.at(2, seen.append, "first")

    calendar.run(1.0, seen.extend, lambda: None)

    assert seen == ["first", "a", "b", "c", "d"]


def test_what_a_handler_notes_for_its_own_tick_is_done_in_it() -> None:
    calendar, seen = TickCalendar[str](), []
    calendar.at(5, lambda _: calendar.after(0.0, lambda _: seen.append(calendar.tick), None), None)

    calendar.run(1.0, seen.extend, lambda: None)

    assert seen == [5]


def test_seconds_end_whether_anything_happens_in_them_or_not() -> None:
    calendar, ends = TickCalendar[str](), []
    calendar.at(250, lambda _: ends.append("handled"), None)

    calendar.run(4.0, lambda _: None, lambda: ends.append(calendar.now))

    assert ends == [1.0, 2.0, "handled", 3.0, 4.0]
    assert calendar.tick == 4 * TICKS_PER_SECOND


def test_a_time_is_rounded_up_to_a_tick_and_never_before_now() -> None:
    calendar, seen = TickCalendar[str](), []
    for seconds in (0.001, 0.01, -5.0):
        calendar.after(seconds, lambda _: seen.append(calendar.tick), None)

    calendar.run(1.0, seen.extend, lambda: None)

    assert seen == [0, 1, 1]
