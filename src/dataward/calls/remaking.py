"""Has calls made again whose large results were lost, and those before them as far as need be."""

from collections.abc import Callable, Sequence
from typing import Any

from dataward.calls.arguments import PendingCall
from dataward.calls.fleeting import CallRecipe, FleetingResult, Ingredient, KeptArguments
from dataward.calls.future import CallFuture, Kept
from dataward.errors import ValueLostError

AGAIN_MAX = 3  # how often a call is made again before its result counts as lost for good

AddCall = Callable[[PendingCall, Sequence[PendingCall]], None]
"""Is given a call to make, and the unfinished calls whose results it needs."""


class Remaker:
    """Knows the calls that are made again now. Everything runs in the executor's own thread."""

    def __init__(self, add: AddCall) -> None:
        self._add = add
        self._under_way: dict[int, PendingCall] = {}  # by number
        self._kept = KeptArguments()

    def recipe_of(self, call: PendingCall) -> CallRecipe | None:
        """How to make a call again whose needs are there now; None if too much is kept already."""
        if call.recipe is not None or self._kept.is_full:
            return call.recipe
        needs = tuple(Ingredient(n.number, n.kept) for n in call.needs if n.kept is not None)
        return CallRecipe(
            call.number, call.function, call.arguments, needs, call.future.owner, self._kept
        )

    def make(self, value: FleetingResult) -> PendingCall | None:
        """The call that makes a lost value again; None if that cannot be done."""
        recipe = value.recipe
        if not value.may_come_back:
            return None
        if recipe is None:
            _give_up(value, "its arguments are no longer kept")
            return None
        if recipe.number in self._under_way:
            return self._under_way[recipe.number]
        new = [_again(recipe, value)]
        needs: list[list[PendingCall]] = []
        calls = {recipe.number: new[0]}
        for call in new:  # which grows: chains of lost values may be long
            if call.recipe is None or call.recipe.tries >= AGAIN_MAX:
                _give_up(value, f"{call.function.name} was made too often in vain")
                return None
            unfinished: list[PendingCall] = []
            for need in call.recipe.needs:
                future = self._found(need, calls, new, unfinished)
                if future is None:
                    _give_up(value, "the arguments of a call before it are no longer kept")
                    return None
                call.needs = (*call.needs, future)
            needs.append(unfinished)
        self._under_way |= calls
        for call, unfinished in zip(new, needs, strict=True):
            assert call.recipe is not None
            call.recipe.tries += 1
            self._add(call, unfinished)
        return new[0]

    def _found(
        self,
        need: Ingredient,
        calls: dict[int, PendingCall],
        new: list[PendingCall],
        unfinished: list[PendingCall],
    ) -> CallFuture[Any] | None:
        """The future of a result that is there, or of the call that makes it again."""
        value = need.value
        kept: Kept | None = value if need.small is None else need.small
        is_lost = isinstance(value, FleetingResult) and value.loss is not None
        if kept is not None and not is_lost:
            return _stand_in(need, kept)
        call = self._under_way.get(need.number) or calls.get(need.number)
        if call is None:
            if need.recipe is None:
                return None
            lost = value if isinstance(value, FleetingResult) else None
            call = calls[need.number] = _again(need.recipe, lost)
            new.append(call)
        unfinished.append(call)
        return call.future

    def over(self, call: PendingCall, error: BaseException | None = None) -> None:
        """A call has ended; those that were lost and cannot be made again get the error."""
        if call.recipe is None:
            return
        self._under_way.pop(call.number, None)
        if error is not None and call.renews is not None:
            call.renews.give_up(error)


def _give_up(value: FleetingResult, why: str) -> None:
    """Let a lost value be lost for good, for this reason besides."""
    loss = value.loss
    if isinstance(loss, ValueLostError):
        value.give_up(ValueLostError(loss.function, f"{loss.how}, and {why}"))


def _again(recipe: CallRecipe, value: FleetingResult | None) -> PendingCall:
    future: CallFuture[Any] = CallFuture(recipe.owner)
    future.number = recipe.number
    call = PendingCall.again(recipe, future, value)
    future.pending = call
    return call


def _stand_in(need: Ingredient, kept: Kept) -> CallFuture[Any]:
    """A future of that number with this result, as the pickled arguments name it."""
    future: CallFuture[Any] = CallFuture(_Nobody())
    future.number = need.number
    future.set_kept(kept)
    return future


class _Nobody:
    def on_cancelled(self, future: CallFuture[Any]) -> None:
        """It has a result, so it cannot be cancelled."""
