"""Bookings of one node and submissions of one owner, message by message."""

from dataclasses import replace

from dataward.deadlines.frames import Allocation, outline_of
from dataward.deadlines.local_schedule import Frame, QueueSlot
from dataward.deadlines.reservations import (
    EXPIRY_SECONDS,
    Booking,
    ExecutionRole,
    LentTo,
    WantedBytes,
    WantedSlots,
    as_mates,
)
from dataward.deadlines.submission import (
    AskFor,
    AskKey,
    BookingRef,
    ConfirmAt,
    ReleaseAt,
    SubmissionState,
    WorkflowSubmission,
    cut_key,
)
from plan.dags import a_workflow

LONG = WantedSlots([600.0], Frame(0.0, 2000.0), [False])


def test_a_booking_that_is_not_confirmed_expires_and_leaves_nothing() -> None:
    role = ExecutionRole()
    role.reserve("r", LONG, 0.0)

    assert not role.expire(EXPIRY_SECONDS)
    assert role.expire(EXPIRY_SECONDS + 1)

    assert role.queue == []
    assert not role.confirm("r", 1, EXPIRY_SECONDS + 1)


def test_two_requests_never_get_the_same_hole() -> None:
    role = ExecutionRole()
    tight = WantedSlots([600.0], Frame(0.0, 1000.0), [False])

    assert role.reserve("one", tight, 0.0) is not None
    assert role.reserve("two", tight, 0.0) is None
    role.release("one")
    assert role.reserve("two", tight, 0.0) is not None


def test_a_repeated_request_gets_the_same_booking() -> None:
    role = ExecutionRole()

    assert role.reserve("r", LONG, 0.0) is role.reserve("r", LONG, 5.0)
    assert len(role.queue) == 1


def test_a_late_confirmation_does_not_confirm_a_later_booking() -> None:
    role = ExecutionRole()
    role.reserve("r", LONG, 0.0)
    role.release("r")
    role.reserve("r", LONG, 1.0)  # the request came once more

    assert not role.confirm("r", 1, 2.0)
    assert role.confirm("r", 2, 2.0)


def test_only_confirmed_tasks_start() -> None:
    role = ExecutionRole(speed=2.0)
    role.reserve("r", LONG, 0.0)
    assert role.start_next(0.0, lambda request, place: True) is None
    role.confirm("r", 1, 1.0)

    slot = role.start_next(1.0, lambda request, place: True)

    assert slot is not None
    assert slot.task == ("r", 0)
    assert role.free_from == 301.0


def test_a_confirmed_booking_is_freed_when_its_time_is_over() -> None:
    role = ExecutionRole()
    role.reserve("r", LONG, 0.0)
    role.confirm("r", 1, 0.0)

    assert not role.expire(2000.0)
    assert role.expire(2000.1)


# --- slots of one host ---------------------------------------------------------------------------


def a_host(slots: int) -> list[ExecutionRole]:
    roles = [ExecutionRole() for _ in range(slots)]
    as_mates(roles)
    return roles


def checked(roles: list[ExecutionRole]) -> list[int]:
    """How many slots each queue has; what they promise is in order."""
    for role in roles:
        role.check_invariants(0.0)
    return [len(role.queue) for role in roles]


WIDE = WantedSlots([60.0, 100.0], Frame(0.0, 400.0), [False, False], cores=[1, 2])


def test_a_task_of_two_cores_has_the_same_time_in_two_slots() -> None:
    roles = a_host(3)

    booking = roles[1].reserve("r", WIDE, 0.0)

    assert booking is not None
    assert booking.beside == (0,)
    assert checked(roles) == [1, 2, 0]
    assert roles[0].queue == [QueueSlot(400.0, 100.0, (LentTo(1, "r"), 1))]
    assert roles[1].queue[1] == QueueSlot(400.0, 100.0, ("r", 1))


def test_a_host_with_fewer_slots_than_cores_refuses_and_keeps_nothing() -> None:
    roles = a_host(2)

    assert roles[0].reserve("r", WIDE._replace(cores=[1, 3]), 0.0) is None
    assert checked(roles) == [0, 0]


def test_all_slots_of_a_task_are_reserved_or_none() -> None:
    roles = a_host(2)
    assert roles[1].reserve("other", LONG._replace(frame=Frame(0.0, 600.0)), 0.0) is not None

    assert roles[0].reserve("r", WIDE, 0.0) is None
    assert checked(roles) == [0, 1]


def test_two_requests_never_get_the_same_time_of_a_mate() -> None:
    roles = a_host(3)
    tight = WantedSlots([90.0], Frame(0.0, 100.0), [False], cores=[2])

    assert roles[0].reserve("one", tight, 0.0) is not None
    assert roles[1].reserve("two", tight, 0.0) is None
    assert roles[2].reserve("two", tight, 0.0) is None
    assert roles[1].reserve("three", tight._replace(cores=[1]), 0.0) is None
    assert roles[2].reserve("three", tight._replace(cores=[1]), 0.0) is not None
    assert checked(roles) == [1, 1, 1]


def test_a_released_booking_frees_all_of_its_slots_and_no_others() -> None:
    roles = a_host(2)
    roles[0].reserve("one", WIDE, 0.0)
    roles[1].reserve("one", WIDE, 0.0)  # the request came to another slot of the host as well
    assert checked(roles) == [3, 3]

    roles[0].release("one")
    assert checked(roles) == [1, 2]

    roles[1].release("one")
    assert checked(roles) == [0, 0]
    assert not any(role.lent for role in roles)


def test_an_expired_booking_frees_all_of_its_slots() -> None:
    roles = a_host(3)
    roles[2].reserve("r", WIDE._replace(cores=[2, 3]), 0.0)
    assert checked(roles) == [2, 1, 2]

    assert roles[2].expire(EXPIRY_SECONDS + 1)

    assert checked(roles) == [0, 0, 0]


# --- the owner -----------------------------------------------------------------------------------

FORK_JOIN = a_workflow(("f", 10, ""), ("a", 10, "f"), ("b", 10, "f"), ("j", 10, "ab"))


def a_submission() -> tuple[WorkflowSubmission, AskFor]:
    submission = WorkflowSubmission(1, Allocation(outline_of(FORK_JOIN), 0.0, 90.0))
    (ask,) = submission.begin()
    assert isinstance(ask, AskFor)
    return submission, ask


def booked(ask: AskFor, number: int = 1) -> Booking:
    role = ExecutionRole(bookings_made=number - 1)
    booking = role.reserve(ask.key, ask.wanted, 0.0)
    assert booking is not None
    return booking


def test_a_stage_is_asked_for_when_the_one_before_is_reserved_and_all_is_then_confirmed() -> None:
    submission, first = a_submission()
    (second,) = submission.on_reserved(first.key, BookingRef(5, 1), booked(first).promises)
    assert isinstance(second, AskFor)
    assert second.wanted.frame == Frame(30.0, 80.0)

    orders = submission.on_reserved(second.key, BookingRef(6, 1), booked(second).promises)
    assert orders == [
        ConfirmAt(BookingRef(5, 1), first.key),
        ConfirmAt(BookingRef(6, 1), second.key),
    ]

    submission.on_confirmed(first.key, BookingRef(5, 1))
    assert submission.state is SubmissionState.CONFIRMING
    assert submission.on_silence(1.0) == [ConfirmAt(BookingRef(6, 1), second.key)]
    submission.on_confirmed(second.key, BookingRef(6, 1))
    assert submission.state is SubmissionState.ACCEPTED


def test_a_refusal_releases_all_that_was_reserved_until_nodes_say_so() -> None:
    submission, first = a_submission()
    (second,) = submission.on_reserved(first.key, BookingRef(5, 1), booked(first).promises)
    assert isinstance(second, AskFor)

    for _ in range(2):  # it is asked for once more
        assert submission.on_refused(second.key) == []
        (second,) = submission.on_silence(1.0)
        assert isinstance(second, AskFor)
    assert submission.on_refused(second.key) == [ReleaseAt(5, first.key)]
    assert submission.state is SubmissionState.REFUSED
    assert submission.on_silence(1.0) == [ReleaseAt(5, first.key)]
    submission.on_released(first.key, 5)
    assert submission.on_silence(2.0) == []


def test_a_second_node_that_reserved_the_same_is_released() -> None:
    submission, first = a_submission()
    submission.on_reserved(first.key, BookingRef(5, 1), booked(first).promises)

    orders = submission.on_reserved(first.key, BookingRef(8, 1), booked(first).promises)

    assert orders == [ReleaseAt(8, first.key)]
    assert submission.bookings[first.key] == BookingRef(5, 1)


def test_pieces_of_a_request_count_together() -> None:
    submission, first = a_submission()
    promises = booked(first).promises
    one, two = cut_key(first.key, 1)

    assert submission.on_reserved(two, BookingRef(6, 1), promises[1:]) == []
    assert len(submission.on_reserved(one, BookingRef(5, 1), promises[:1])) == 1


def test_a_request_without_an_answer_is_made_again_and_then_given_up() -> None:
    submission, first = a_submission()
    one, _ = cut_key(first.key, 1)
    submission.on_reserved(one, BookingRef(5, 1), booked(first).promises[:1])

    release, again = submission.on_silence(6.0)

    assert release == ReleaseAt(5, one)
    assert isinstance(again, AskFor)
    assert again.key == AskKey(1, 0, 2, 0, 3)
    assert again.wanted == first.wanted
    assert len(submission.on_silence(12.0)) == 1
    submission.on_silence(18.0)
    assert submission.state is SubmissionState.REFUSED


def test_a_booking_that_expired_before_it_was_confirmed_ends_the_promise() -> None:
    submission = WorkflowSubmission(1, Allocation(outline_of(a_workflow(("a", 10, ""))), 0.0, 50.0))
    (ask,) = submission.begin()
    assert isinstance(ask, AskFor)
    submission.on_reserved(ask.key, BookingRef(5, 1), booked(ask).promises)

    assert submission.on_expired(ask.key, BookingRef(5, 1)) == [ReleaseAt(5, ask.key)]
    assert submission.state is SubmissionState.REFUSED


def test_only_so_many_sequences_of_a_stage_are_asked_for_at_a_time() -> None:
    bag = a_workflow(*((letter, 10, "") for letter in "abcde"))
    submission = WorkflowSubmission(1, Allocation(outline_of(bag), 0.0, 90.0), at_once_max=2)
    asks = submission.begin()
    assert len(asks) == 2

    for number in range(5):
        ask = asks.pop(0)
        assert isinstance(ask, AskFor)
        asks += submission.on_reserved(ask.key, BookingRef(number, 1), booked(ask).promises)

    assert submission.state is SubmissionState.CONFIRMING
    assert len(submission.bookings) == 5


def test_a_refusal_that_is_certain_ends_the_question_at_once() -> None:
    submission, ask = a_submission()

    assert submission.on_refused(ask.key) == []
    assert submission.state is SubmissionState.ASKING
    submission.on_refused(ask.key, is_certain=True)

    assert submission.state is SubmissionState.REFUSED


# --- data, and promises of runs ------------------------------------------------------------------


def test_what_is_not_at_its_place_makes_a_task_longer() -> None:
    wanted = WantedSlots(
        [10.0], Frame(0.0, 100.0), [False], 1.0, [WantedBytes(300.0, [(7, 200.0)])]
    )
    near = ExecutionRole(place=7, bytes_per_second=10.0)
    far = ExecutionRole(place=8, bytes_per_second=10.0)

    seconds = []
    for role in (near, far):
        booking = role.reserve("a", wanted, 0.0)
        assert booking is not None
        ((start, end),) = booking.promises
        seconds.append(end - start)

    assert seconds == [20.0, 40.0]


def test_the_best_place_has_the_most_bytes_and_the_lowest_of_equals_wins() -> None:
    def best(*held: tuple[int, float]) -> int | None:
        wanted = WantedSlots([1.0], Frame(0.0, 9.0), [False], 1.0, [WantedBytes(9.0, held)])
        return wanted.best_place

    assert best((3, 1.0), (2, 4.0)) == 2
    assert best((3, 4.0), (2, 4.0)) == 2
    assert best() is None


def test_a_confirmed_booking_that_nobody_adopts_is_freed() -> None:
    role = ExecutionRole(hold_seconds=60.0, patience_seconds=float("inf"))
    booking = role.reserve("a", LONG, 0.0)
    assert booking is not None
    assert role.confirm("a", booking.number, 10.0)

    assert not role.expire(70.0)
    assert role.confirm("a", booking.number, 70.0)  # said again: it is not held for longer
    assert role.expire(70.1)
    assert not role.queue


def test_adopted_promises_replace_those_of_the_same_run_and_stay() -> None:
    role = ExecutionRole(hold_seconds=60.0, patience_seconds=float("inf"))
    role.adopt("run", [QueueSlot(50.0, 10.0, ("run", "a")), QueueSlot(90.0, 10.0, ("run", "b"))])

    role.adopt("run", [QueueSlot(80.0, 10.0, ("run", "b"))])
    role.expire(1000.0)

    assert role.queue == [QueueSlot(80.0, 10.0, ("run", "b"))]
    role.check_invariants(0.0)
    assert role.take(("run", "b")) is not None
    assert role.take(("run", "b")) is None


def test_the_owner_of_a_wide_task_knows_all_of_its_slots() -> None:
    outline = replace(outline_of(a_workflow(("a", 10, ""), ("b", 10, "a"))), cores=[3, 2])
    submission = WorkflowSubmission(1, Allocation(outline, 0.0, 90.0))
    (ask,) = submission.begin()
    assert isinstance(ask, AskFor)
    assert ask.wanted.cores == [3, 2]

    booking = a_host(3)[0].reserve(ask.key, ask.wanted, 0.0)
    assert booking is not None
    submission.on_reserved(ask.key, BookingRef(5, 1, booking.beside), booking.promises)

    assert [submission.placed()[task].beside for task in (0, 1)] == [(1, 2), (1,)]


def test_the_widest_sequences_of_a_stage_are_asked_for_first() -> None:
    bag = outline_of(a_workflow(*((name, 10, "") for name in "abcd")))
    outline = replace(bag, cores=[1, 2, 1, 3])
    submission = WorkflowSubmission(1, Allocation(outline, 0.0, 90.0))

    asks = [ask for ask in submission.begin() if isinstance(ask, AskFor)]

    assert [ask.wanted.width for ask in asks] == [3, 2, 1, 1]
    assert [ask.key.sequence for ask in asks[2:]] == [0, 2]


def test_a_piece_of_a_request_has_its_own_cores() -> None:
    piece = WIDE.part(0, 1, Frame(0.0, 90.0), [True])

    assert (piece.cores, piece.width, WIDE.width) == ([1], 1, 2)
