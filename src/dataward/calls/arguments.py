"""Pickles the arguments of a call, for a runner process.

A future among the arguments, however deep, stands in the pickle as the number of its call; the
runner process puts that call's result in its place.
"""

import io
import pickle
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import cloudpickle

from dataward.calls.bundles import Item
from dataward.calls.fleeting import CallRecipe, FleetingResult
from dataward.calls.functions import Function
from dataward.calls.future import CallFuture
from dataward.live.call_results import UNCHANGING


class PendingCall(Item):
    """A call that has no result yet."""

    __slots__ = (
        "arguments",
        "function",
        "future",
        "is_started",
        "needs",
        "recipe",
        "renews",
        "tries",
    )

    def __init__(
        self,
        future: CallFuture[Any],
        function: Function,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Raises TypeError or PicklingError if the arguments cannot be sent."""
        if _is_plain(args, kwargs):
            self._begin(future, function, pickle.dumps((args, kwargs), 5), ())
        else:
            arguments, needs = _pickled(args, kwargs, future.owner, function.name)
            self._begin(future, function, arguments, needs)

    def _begin(
        self,
        future: CallFuture[Any],
        function: Function,
        arguments: bytes,
        needs: tuple[CallFuture[Any], ...],
    ) -> None:
        super().__init__(-1, function.pace)
        self.future = future
        self.function = function
        self.arguments = arguments
        self.needs = needs
        self.is_started = False
        self.tries = 0  # how often it was sent to a process that ended before it began
        self.recipe: CallRecipe | None = (
            None  # if the call was made before, and its result was lost
        )
        self.renews: FleetingResult | None = None  # what was lost, if anybody still refers to it

    @classmethod
    def again(
        cls, recipe: CallRecipe, future: CallFuture[Any], renews: FleetingResult | None
    ) -> "PendingCall":
        """A call that was made before."""
        call = cls.__new__(cls)
        call._begin(future, recipe.function, recipe.arguments, ())
        call.number, call.recipe, call.renews = recipe.number, recipe, renews
        return call


def _is_plain(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the arguments are only numbers and texts, or lists of them: they hold no futures."""
    if kwargs:
        return False
    return all(type(value) in UNCHANGING or _is_flat(value) for value in args)


def _is_flat(value: Any) -> bool:
    return type(value) in (list, tuple) and UNCHANGING.issuperset(map(type, value))


def _pickled(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], owner: object, name: str
) -> tuple[bytes, tuple[CallFuture[Any], ...]]:
    file = io.BytesIO()
    pickler = _Pickler(file, owner)
    try:
        pickler.dump((args, kwargs))
    except ForeignFutureError:
        raise
    except Exception as error:
        raise pickle.PicklingError(
            f"the arguments of {name} cannot be pickled: {error or type(error).__name__}"
        ) from error
    return file.getvalue(), tuple(pickler.needs.values())


class ForeignFutureError(TypeError):
    """A future of another executor was passed as an argument."""

    def __init__(self) -> None:
        super().__init__(
            "a future of another executor cannot be an argument; pass its result() instead"
        )


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles each future as the number of its call, and notes it in ``needs``."""

    def __init__(self, file: io.BytesIO, owner: object) -> None:
        super().__init__(file, 5)
        self._owner = owner
        self.needs: dict[int, CallFuture[Any]] = {}

    def persistent_id(self, value: Any) -> int | None:
        kind = type(value)
        if kind is CallFuture:
            if value.owner is not self._owner:
                raise ForeignFutureError
            number: int = value.number
            self.needs[number] = value
            return number
        if kind not in UNCHANGING and isinstance(value, Future):
            raise ForeignFutureError
        return None
