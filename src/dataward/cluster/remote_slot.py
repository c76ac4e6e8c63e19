"""A slot that a host has lent: what was sent to it, and what came back, over the host's line."""

from collections.abc import Sequence

from dataward.calls.arguments import PendingCall
from dataward.calls.lent_slot import LentSlot
from dataward.cluster.call_wire import (
    CallsMade,
    EndLoan,
    MakeBundle,
    Need,
    Outgoing,
    Ticket,
    ValueName,
)
from dataward.cluster.remote_value import RemoteFile, RemoteValue, ValueOwner
from dataward.live.call_pipes import MadeCall
from dataward.live.call_results import InFile, Result
from dataward.model.ids import NodeId
from dataward.model.workflow import TaskId


class RemotePipes:
    """Stands for the pipes at the host."""

    def __init__(self, slot: int, outgoing: Outgoing) -> None:
        self.slot = slot
        self._outgoing = outgoing
        self._made: list[MadeCall] = []
        self._back: list[Ticket] = []
        self.needs: tuple[Need, ...] = ()  # of the bundle that is sent next

    def send(self, bundle: int, payload: bytes, calls: int) -> bool:
        self._outgoing.put(MakeBundle(self.slot, bundle, calls, payload, self.needs))
        return True

    def on_made(self, message: CallsMade) -> None:
        for call in message.calls:
            result: Result | InFile
            if call.digest:
                name = ValueName(self.slot, call.bundle, call.place)
                result = RemoteFile(name.file_name, call.digest, call.size_bytes)
            else:
                result = Result(call.value, call.trace)
            self._made.append(MadeCall(call.bundle, call.place, call.seconds, result))

    def on_back(self, tickets: Sequence[Ticket]) -> None:
        self._back += tickets

    def made(self) -> list[MadeCall]:
        made, self._made = self._made, []
        return made

    def take_back(self) -> list[tuple[int, int]]:
        back, self._back = self._back, []
        return list(back)

    def remove(self, bundle: int) -> None:
        """The host removes the bundle's file itself."""

    def close(self) -> None:
        self._outgoing.put(EndLoan(self.slot))


class RemoteSlot(LentSlot):
    is_elsewhere = True

    def __init__(self, number: int, node: NodeId, outgoing: Outgoing, owner: ValueOwner) -> None:
        pipes = RemotePipes(number, outgoing)
        super().__init__(TaskId(f"slot{number}"), node, pipes, None)
        self.number = number
        self.pipes = pipes
        self._owner = owner
        self._is_slow = False
        self._asked: dict[int, list[RemoteValue]] = {}  # by bundle, values made at other nodes

    @property
    def is_slow(self) -> bool:
        """Whether a call takes long: the host says so by giving back those behind it."""
        return self._is_slow and bool(self.bundles)

    def send(self, number: int, calls: Sequence[PendingCall], initializer: bytes) -> bool:
        values = self._values_of(calls)
        if values:
            self._asked[number] = values
        self.pipes.needs = tuple(
            Need(value.name, value.file.digest, tuple(n for n in value.holders if n != self.node))
            for value in values
        )
        for value in values:
            if self.node not in value.holders:
                value.holders.append(self.node)
        return super().send(number, calls, initializer)

    def _values_of(self, calls: Sequence[PendingCall]) -> list[RemoteValue]:
        """The values that calls need and that were made at other nodes."""
        found: dict[ValueName, RemoteValue] = {}
        for call in calls:
            for need in call.needs:
                value = need.kept
                if isinstance(value, RemoteValue) and value.maker != self.node:
                    found[value.name] = value
        return list(found.values())

    def on_made(self, message: CallsMade) -> None:
        self._is_slow = False
        if self._asked:
            for call in message.calls:
                self._asked.pop(call.bundle, None)
        self.pipes.on_made(message)

    def on_back(self, tickets: Sequence[Ticket]) -> list[PendingCall]:
        """The calls that the host gives back, since one before them takes long."""
        self._is_slow = True
        self.pipes.on_back(tickets)
        return self.take_back()

    def on_needs_missing(self, bundle: int, why: str) -> list[PendingCall]:
        """The calls of a bundle for which the host could not bring in all values."""
        for value in self._asked.pop(bundle, ()):
            value.on_missed(self.node, why)
        self.pipes.on_back([Ticket(bundle, place) for place in self.places_of(bundle)])
        return self.take_back()

    def on_over(self, begun: Sequence[Ticket]) -> tuple[list[PendingCall], list[PendingCall]]:
        """The calls that were begun when the loan ended, and those that were not."""
        tickets = set(begun)
        back = [
            Ticket(bundle, place)
            for bundle in self.bundle_numbers()
            for place in self.places_of(bundle)
            if Ticket(bundle, place) not in tickets
        ]
        self.pipes.on_back(back)
        given_back = self.take_back()
        return self.calls(), given_back

    def _stored(self, call: PendingCall, file: InFile) -> RemoteValue:
        assert isinstance(file, RemoteFile)
        slot, bundle, place = map(int, file.path.split("."))
        name = ValueName(slot, bundle, place)
        if isinstance(call.renews, RemoteValue):
            call.renews.renew(name, file, self.node)
            self._owner.on_new_value(call.renews)
            return call.renews
        value = RemoteValue(name, file, call.function.name, self.node, self._owner)
        self._owner.on_new_value(value)
        return value
