"""A slot that a node has lent to an executor: the bundles its process was given, and their results.

The node sees one long task. Bundles go to the task's process directly (see `call_pipes`): through
the node, each would take several times as long as a small call.
"""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dataward.calls.arguments import PendingCall
from dataward.calls.functions import Function
from dataward.calls.future import Kept, LargeResult, StoredResult
from dataward.live.call_pipes import MadeCall
from dataward.live.call_results import InFile, Result
from dataward.live.making_calls import Bundle, Call, Known, encode_bundle
from dataward.live.orders import CALLS
from dataward.model.ids import NodeId
from dataward.model.operations import TaskSpec
from dataward.model.workflow import TaskId

LOOKS_MAX = 2  # a call is slow if it has not ended when it was looked at this often


class NewResult(NamedTuple):
    """A call that has been made, and its result: an error, or a pickled value."""

    call: PendingCall
    result: Result | StoredResult


class Journey:
    """A bundle of calls under way."""

    __slots__ = ("calls", "taken")

    def __init__(self, calls: Sequence[PendingCall]) -> None:
        self.calls = dict(enumerate(calls))  # those without a result, by place
        self.taken = {call.pace: [0.0, 0.0] for call in calls}  # number of calls, and seconds

    def made(self, place: int, seconds: float) -> PendingCall:
        """The call at this place, which took so long."""
        call = self.calls.pop(place)
        taken = self.taken[call.pace]
        taken[0] += 1
        taken[1] += seconds
        return call

    def learn(self) -> None:
        """Note how long the calls of each function took."""
        for pace, (calls, seconds) in self.taken.items():
            if calls:
                pace.learn(int(calls), seconds)


class CallPipes(Protocol):
    """Brings calls to a process, and their results back; as `CallerPipes` does on one machine."""

    def send(self, bundle: int, payload: bytes, calls: int) -> bool: ...
    def made(self) -> list[MadeCall]: ...
    def take_back(self) -> list[tuple[int, int]]: ...
    def remove(self, bundle: int) -> None: ...
    def close(self) -> None: ...


class LentSlot:
    is_elsewhere = False  # whether its process may be on another machine

    def __init__(self, id: TaskId, node: NodeId, pipes: CallPipes, directory: object) -> None:
        """Large results keep a reference to ``directory``."""
        self.id = id
        self.node = node
        self._directory = directory
        self._pipes = pipes
        self._journeys: dict[int, Journey] = {}
        self._looks = 0  # since a result came
        self.is_ready = False  # whether its process has started

    def spec(self, stem: str) -> TaskSpec:
        """The task that a node runs as long as the slot is lent; ``stem`` is that of its pipes."""
        return TaskSpec(
            id=self.id,
            type="calls",
            parents=(),
            children=(),
            inputs=(),
            outputs=(),
            estimated_seconds=0.0,
            cores=1,
            memory_bytes=0,
            retries=0,
            preferred=self.node,
            priority=0.0,
            backups_max=0,
            command=(CALLS, stem),
        )

    @property
    def bundles(self) -> int:
        """How many bundles are under way."""
        return len(self._journeys)

    @property
    def is_slow(self) -> bool:
        """Whether a call takes long, so that no other call should wait behind it."""
        return bool(self._journeys) and self._looks >= LOOKS_MAX

    def calls(self) -> list[PendingCall]:
        """The calls that have no result yet."""
        return [call for journey in self._journeys.values() for call in journey.calls.values()]

    def bundle_numbers(self) -> list[int]:
        return list(self._journeys)

    def places_of(self, bundle: int) -> list[int]:
        """The places in a bundle of the calls that have no result yet."""
        return list(self._journeys[bundle].calls)

    def send(self, number: int, calls: Sequence[PendingCall], initializer: bytes) -> bool:
        """Whether the calls were sent, as the bundle with this number. Raises OSError."""
        payload = encode_bundle(_bundle(calls, initializer, self.is_elsewhere))
        is_sent = self._pipes.send(number, payload, len(calls))
        if not self._journeys:
            self._looks = 0
        if is_sent:
            self._journeys[number] = Journey(calls)
        return is_sent

    def new_results(self) -> list[NewResult]:
        """The calls that have been made since this was last asked."""
        found = []
        for number, place, seconds, result in self._pipes.made():
            call = self._journeys[number].made(place, seconds)
            kept = self._stored(call, result) if isinstance(result, InFile) else result
            found.append(NewResult(call, kept))
        if found:
            self._looks = 0
            self._end_journeys()
        return found

    def _stored(self, call: PendingCall, file: InFile) -> StoredResult:
        return LargeResult(file, self._directory)

    def look(self) -> None:
        """Note that some time has passed; see `is_slow`."""
        if self._journeys:
            self._looks += 1

    def take_back(self) -> list[PendingCall]:
        """The calls that the process has not begun to make, and will not make."""
        tickets = self._pipes.take_back()
        back = [self._journeys[number].calls.pop(place) for number, place in tickets]
        self._end_journeys()
        return back

    def _end_journeys(self) -> None:
        for number in [n for n, journey in self._journeys.items() if not journey.calls]:
            self._journeys.pop(number).learn()
            self._pipes.remove(number)

    def close(self) -> None:
        """Let the process find no more calls to make."""
        self._pipes.close()


def _bundle(calls: Sequence[PendingCall], initializer: bytes, is_elsewhere: bool) -> Bundle:
    functions: dict[str, Function] = {call.function.digest: call.function for call in calls}
    places = {digest: place for place, digest in enumerate(functions)}
    needed = {
        need.number: need.kept for call in calls for need in call.needs if need.kept is not None
    }
    return Bundle(
        functions=tuple((digest, function.pickled) for digest, function in functions.items()),
        calls=tuple(
            Call(call.number, places[call.function.digest], call.arguments, bool(call.needs))
            for call in calls
        ),
        known=tuple(_known(number, kept) for number, kept in needed.items()),
        path=tuple(place or os.getcwd() for place in sys.path),
        directory=os.getcwd(),
        initializer=initializer,
        is_elsewhere=is_elsewhere,
    )


def _known(number: int, kept: Kept) -> Known:
    if isinstance(kept, StoredResult):
        return Known(number, b"", kept.file)
    return Known(number, kept)
