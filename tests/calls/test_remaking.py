"""Which calls are made again for a lost value, and when that is given up."""

from collections.abc import Sequence

from dataward.calls.arguments import PendingCall
from dataward.calls.bundles import Pace
from dataward.calls.fleeting import FleetingResult
from dataward.calls.functions import Function
from dataward.calls.future import CallFuture
from dataward.calls.remaking import AGAIN_MAX, Remaker
from dataward.errors import ValueLostError
from dataward.live.call_results import InFile


class Owner:
    def on_cancelled(self, future: CallFuture[object]) -> None:
        """Nothing is cancelled here."""


OWNER = Owner()


class Value(FleetingResult):
    """A value that is lost when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: BaseException | None = None
        self.is_given_up = False

    @property
    def file(self) -> InFile:
        return InFile("")

    @property
    def loss(self) -> BaseException | None:
        return self.lost

    @property
    def may_come_back(self) -> bool:
        return self.lost is not None and not self.is_given_up

    def lose(self) -> None:
        self.lost = ValueLostError("f", "its node is gone")

    def give_up(self, why: BaseException) -> None:
        self.lost, self.is_given_up = why, True

    def load(self, timeout: float | None = None) -> object:
        return b""


class Place:
    """Calls that have been made, each with its value, and those that are made again."""

    def __init__(self) -> None:
        self.again: list[tuple[int, list[int]]] = []  # numbers: a call, and what it waits for
        self.calls: dict[int, PendingCall] = {}
        self.remaker = Remaker(self._add)
        self._number = 0

    def _add(self, call: PendingCall, needs: Sequence[PendingCall]) -> None:
        self.again.append((call.number, [need.number for need in needs]))
        self.calls[call.number] = call

    def made(self, *needs: CallFuture[object], small: bytes | None = None) -> CallFuture[object]:
        """The future of a call that has been made."""
        self._number += 1
        future: CallFuture[object] = CallFuture(OWNER)
        call = PendingCall(future, Function("f", b"f", Pace()), needs, {})
        call.number = future.number = self._number
        value = Value()
        value.recipe = self.remaker.recipe_of(call)
        future.set_kept(small or value)
        return future

    def lose(self, *futures: CallFuture[object]) -> None:
        for future in futures:
            value_of(future).lose()

    def ended(self, number: int, value: Value | None) -> None:
        """A call that was made again has its result."""
        call = self.calls.pop(number)
        if value is not None:
            value.lost = None
        self.remaker.over(call)


def value_of(future: CallFuture[object]) -> Value:
    assert isinstance(future.kept, Value)
    return future.kept


def test_only_the_calls_whose_values_are_gone_are_made_again() -> None:
    place = Place()
    base, small = place.made(), place.made(small=b"1")
    middle = place.made(base, small)
    end = place.made(middle)
    place.lose(middle, end)

    place.remaker.make(value_of(end))

    assert place.again == [(4, [3]), (3, [])]


def test_a_value_that_nobody_refers_to_is_made_again_where_it_is_needed() -> None:
    place = Place()
    end = place.made(place.made(place.made()))
    place.lose(end)

    place.remaker.make(value_of(end))

    assert place.again == [(3, [2]), (2, [1]), (1, [])]


def test_a_call_that_two_need_is_made_again_once() -> None:
    place = Place()
    base = place.made()
    left, right = place.made(base), place.made(base)
    both = place.made(left, right)
    place.lose(base, left, right, both)

    place.remaker.make(value_of(both))
    place.remaker.make(value_of(left))

    assert place.again == [(4, [2, 3]), (2, [1]), (3, [1]), (1, [])]


def test_a_value_that_is_lost_too_often_is_given_up() -> None:
    place = Place()
    value = place.made()
    for _ in range(AGAIN_MAX):
        place.lose(value)
        assert place.remaker.make(value_of(value)) is not None
        place.ended(1, value_of(value))
    place.lose(value)

    assert place.remaker.make(value_of(value)) is None
    assert "made too often" in str(value_of(value).loss)
    assert place.remaker.make(value_of(value)) is None


def test_if_the_arguments_of_a_call_before_are_not_kept_a_value_is_given_up() -> None:
    place = Place()
    base = place.made()
    value_of(base).recipe = None
    end = place.made(base)
    place.lose(base, end)

    assert place.remaker.make(value_of(end)) is None
    assert "arguments of a call before it are no longer kept" in str(value_of(end).loss)
    assert place.again == []


def test_a_long_chain_is_made_again() -> None:
    place = Place()
    end = place.made()
    for _ in range(5000):
        end = place.made(end)
    place.lose(end)

    place.remaker.make(value_of(end))

    assert len(place.again) == 5001


def test_what_is_kept_of_calls_goes_with_their_values() -> None:
    place = Place()
    end = place.made()
    for _ in range(5000):
        end = place.made(end)
    kept = place.remaker._kept

    assert kept.bytes > 5000 * 600
    del end
    assert kept.bytes == 0
