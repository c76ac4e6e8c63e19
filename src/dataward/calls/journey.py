"""A bundle of calls under way: the file that is sent, and the task that makes the calls."""

import os
import sys
from collections.abc import Sequence

from dataward.calls.arguments import PendingCall
from dataward.calls.functions import Function
from dataward.calls.future import InDepot
from dataward.live.making_calls import CALLS, Bundle, Call, Known
from dataward.model.ids import NodeId
from dataward.model.operations import InputFile, OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId


class Journey:
    """A bundle of calls under way."""

    __slots__ = ("calls", "functions", "id", "node", "payload", "results")

    def __init__(
        self, id: TaskId, calls: list[PendingCall], functions: list[Function], node: NodeId
    ) -> None:
        self.id = id
        self.calls = calls
        self.functions = functions
        self.node = node
        self.payload = FileId(f"{id}.calls")
        self.results = FileId(f"{id}.results")


def bundle_of(
    calls: Sequence[PendingCall], functions: Sequence[Function], needed: dict[int, InDepot]
) -> Bundle:
    places = {function.digest: place for place, function in enumerate(functions)}
    return Bundle(
        functions=tuple((function.digest, function.pickled) for function in functions),
        calls=tuple(
            Call(call.number, places[call.function.digest], call.arguments, bool(call.needs))
            for call in calls
        ),
        known=tuple(
            Known(number, f"{one.stored.source}.results", one.place)
            for number, one in needed.items()
        ),
        path=tuple(place or os.getcwd() for place in sys.path),
        directory=os.getcwd(),
    )


def spec_of(journey: Journey, inputs: Sequence[InputFile]) -> TaskSpec:
    return TaskSpec(
        id=journey.id,
        type="calls",
        parents=(),
        children=(),
        inputs=tuple(inputs),
        outputs=(OutputFile(journey.results, 0),),
        runtime_seconds=0.0,
        cores=1,
        memory_bytes=0,
        retries=0,
        preferred=journey.node,
        priority=float(journey.calls[0].number),
        backups_max=0,
        command=(CALLS, journey.payload),
    )
