"""The future of a call: its result stays in the depot until somebody asks for it."""

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from dataward.errors import DatawardError
from dataward.live.bundles import Item
from dataward.live.calls import Results
from dataward.model.workflow import FileId, TaskId

T = TypeVar("T")


class ProcessDiedError(DatawardError):
    """The process died in which a call was made, each time that it was tried."""


class RemoteTraceback(Exception):  # noqa: N818 - shown as the cause of the error itself
    """Where in the runner process a call raised its error."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        super().__init__(trace)

    def __str__(self) -> str:
        return f'\n"""\n{self.trace}"""'


class Journey:
    """A bundle of calls on its way, and then its results, as long as anybody may ask for them."""

    __slots__ = ("_on_forgotten", "_read", "file", "id", "items", "left", "size_bytes")

    def __init__(
        self,
        id: TaskId,
        items: list[Item],
        read: "Callable[[Journey], Results]",
        on_forgotten: "Callable[[Journey], None]",
    ) -> None:
        self.id = id
        self.items = items
        self.file = FileId(f"{id}.results")
        self.size_bytes = 0
        self.left = len(items)  # futures that may still be asked
        self._read = read
        self._on_forgotten = on_forgotten

    def value(self, place: int) -> Any:
        return pickle.loads(self._read(self).results[place].value)

    def forget_one(self) -> None:
        self.left -= 1
        if not self.left:
            self._on_forgotten(self)


class Stored:
    """Where a result is: not in memory."""

    __slots__ = ("journey", "place")

    def __init__(self, journey: Journey, place: int) -> None:
        self.journey = journey
        self.place = place


class CallFuture(Future[T]):
    """As any other, but that a dependant finds in it where the result is."""

    number = -1
    item: Item | None = None  # while there is no result
    stored: Stored | None = None

    def result(self, timeout: float | None = None) -> T:
        value: Any = super().result(timeout)
        if type(value) is Stored:
            value = self._result = value.journey.value(value.place)
        found: T = value
        return found

    def __del__(self) -> None:
        if self.stored is not None:
            self.stored.journey.forget_one()
