"""What an executor and a host that lends it slots tell each other, over one websocket.

The pickles in it are bytes to the host, which passes them on: only runner processes and the caller
load them. A value that is large stays in a file at the host that made it. It has the name of the
slot, the bundle and the place in the bundle, numbers that occur once in an executor's life.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple

import msgspec

from dataward.live.call_pipes import TICKETS_MAX
from dataward.model.ids import NodeId

CALLS_PATH = "/calls"
MESSAGE_BYTES_MAX = 1 << 30
HEARTBEAT_SECONDS = 30.0  # whoever is silent for half as long again is gone


class ValueName(NamedTuple):
    slot: int
    bundle: int
    place: int

    @property
    def file_name(self) -> str:
        return f"{self.slot}.{self.bundle}.{self.place}"


class Need(msgspec.Struct, frozen=True, array_like=True):
    """A value that calls of a bundle need, and the nodes that have it."""

    name: ValueName
    digest: str
    holders: tuple[NodeId, ...]


class Ticket(NamedTuple):
    bundle: int
    place: int


# --- to a host -----------------------------------------------------------------------------------


class BorrowSlot(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Lend a slot, as soon as it is this executor's turn; its calls may take so long, if not 0."""

    slot: int
    limit_seconds: float


class MakeBundle(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Make these calls, when all that they need is there."""

    slot: int
    bundle: int
    calls: Annotated[int, msgspec.Meta(ge=1, le=TICKETS_MAX)]
    payload: bytes
    needs: tuple[Need, ...]


class DropValues(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Nobody can ask for these values any more."""

    names: tuple[ValueName, ...]


class EndLoan(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The slot is needed no more."""

    slot: int


class BringValues(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Bring these values in, since a node that has them leaves."""

    needs: tuple[Need, ...]


ToHost = BorrowSlot | MakeBundle | DropValues | EndLoan | BringValues

# --- to the caller -------------------------------------------------------------------------------


class SlotReady(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The slot is lent, and its process has started."""

    slot: int


class CallMade(msgspec.Struct, frozen=True, array_like=True):
    """A call has been made: its value, or its error with a trace, or the digest of a file."""

    bundle: int
    place: int
    seconds: float
    value: bytes
    trace: str = ""
    digest: str = ""
    size_bytes: int = 0


class CallsMade(msgspec.Struct, frozen=True, array_like=True, tag=12):
    slot: int
    calls: tuple[CallMade, ...]


class CallsBack(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A call takes long, so those behind it are given back."""

    slot: int
    tickets: tuple[Ticket, ...]


class NeedsMissing(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """The bundle is given back: a value that it needs could not be had from any holder."""

    slot: int
    bundle: int
    why: str


class LoanOver(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """The loan has ended, and the calls that were not made are given back.

    If its process has died, ``died`` says how, and the calls ``begun`` died with it. If it can make
    no calls at all, ``broken`` says why.
    """

    slot: int
    died: str = ""
    timed_out: bool = False
    begun: tuple[Ticket, ...] = ()
    broken: str = ""


class HostLeaves(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The host lends no more slots, and ends when the caller closes the connection."""


class ValuesBrought(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """The host now has these values, but for those that were ``missed``."""

    names: tuple[ValueName, ...]
    missed: tuple[ValueName, ...]


ToCaller = SlotReady | CallsMade | CallsBack | NeedsMissing | LoanOver | HostLeaves | ValuesBrought

encode_messages = msgspec.msgpack.Encoder().encode
decode_to_host = msgspec.msgpack.Decoder(list[ToHost]).decode
decode_to_caller = msgspec.msgpack.Decoder(list[ToCaller]).decode


class Outgoing:
    """Sends messages in their order, those of one turn of the loop together."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._messages: list[ToHost | ToCaller] = []
        self._some = asyncio.Event()

    def put(self, message: ToHost | ToCaller) -> None:
        self._messages.append(message)
        self._some.set()

    async def run(self) -> None:
        """Send until it is cancelled. Raises ConnectionError if the other end is gone."""
        while True:
            await self._some.wait()
            self._some.clear()
            messages, self._messages = self._messages, []
            await self._send(encode_messages(messages))
