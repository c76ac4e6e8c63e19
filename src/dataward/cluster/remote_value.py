"""A large result that stays at the host that made it, until the caller asks for it."""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from math import inf
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Protocol

from blake3 import blake3

from dataward.calls.fleeting import FleetingResult
from dataward.cluster.call_wire import ValueName
from dataward.errors import ValueLostError
from dataward.live.call_results import InFile
from dataward.live.credentials import Role
from dataward.live.served_files import FILES_PATH
from dataward.live.value_files import load_value, loads_value
from dataward.model.ids import NodeId

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0
LOOK_SECONDS = 1.0  # between looks whether the executor has ended
MISSES_MAX = 2


class RemoteFile(InFile, frozen=True, array_like=True):
    """A file of that name in the directory of the executor, at any host that has it."""

    digest: str = ""
    size_bytes: int = 0


class ValueOwner(Protocol):
    """The lender through whose connections the hosts keep the values."""

    def on_new_value(self, value: "RemoteValue") -> None: ...

    def fetch(self, value: "RemoteValue") -> bytes:
        """The content of the value's file, from a host that has it. Raises OSError."""
        ...

    def revive(self, value: "RemoteValue", name: ValueName, why: str, back: Event) -> bool:
        """Have a value made again that was lost, or that could not be read under this name.

        ``back`` is set once that has been tried. Any thread may ask; False if it would wait in
        vain.
        """
        ...

    def on_dropped(self, name: ValueName, holders: list[NodeId]) -> None:
        """Nobody refers to this value any more; any thread may say so."""
        ...


class RemoteValue(FleetingResult):
    """``holders`` are the nodes that have the value, or were told to bring it in."""

    __slots__ = (
        "_file",
        "_is_given_up",
        "_loss",
        "_owner",
        "_process",
        "_saved",
        "_waiting",
        "function",
        "holders",
        "maker",
        "misses",
        "name",
    )

    def __init__(
        self, name: ValueName, file: RemoteFile, function: str, maker: NodeId, owner: ValueOwner
    ) -> None:
        super().__init__()
        self.name = name
        self.function = function
        self.maker = maker
        self.holders = [maker]
        self.misses = 0  # how often a node could not get it from the others
        self._file = file
        self._owner: ValueOwner | None = owner
        self._saved: tuple[Path, object] | None = None
        self._loss: BaseException | None = None
        self._is_given_up = False
        self._waiting: list[Event] = []
        self._process = os.getpid()

    @property
    def file(self) -> RemoteFile:
        return self._file

    @property
    def homes(self) -> Sequence[str]:
        return self.holders

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    @property
    def loss(self) -> BaseException | None:
        return self._loss

    @property
    def may_come_back(self) -> bool:
        return self._loss is not None and not self._is_given_up

    # --- lost, and made again; all in the executor's own thread ----------------------------------

    def on_gone(self, node: NodeId, how: str) -> None:
        """A node is gone, or has lost the value: that is lost if no other has it."""
        if node in self.holders:
            self.holders.remove(node)
            if node == self.maker:
                self.maker = NodeId("")  # should the node come back, it comes without the value
            if not self.holders and self._saved is None:
                self._loss = ValueLostError(self.function, how)

    def on_missed(self, node: NodeId, how: str) -> None:
        """A node could not get the value from the others; it is not asked of them for ever."""
        self.misses += 1
        self.on_gone(node, how)
        if self.misses >= MISSES_MAX:
            for holder in list(self.holders):
                self.on_gone(holder, how)

    def renew(self, name: ValueName, file: RemoteFile, maker: NodeId) -> None:
        """The value has been made again."""
        self.name, self._file, self.maker, self.holders = name, file, maker, [maker]
        self.misses = 0
        self._loss = None
        self._wake()

    def give_up(self, why: BaseException) -> None:
        self._loss, self._is_given_up = why, True
        self._wake()

    def end(self) -> None:
        """The executor ends: what is not saved by now is lost."""
        if self._saved is None:
            self._owner = None
            self.give_up(self._loss or ValueLostError(self.function, "its executor has ended"))

    def tell_when_back(self, back: Event) -> None:
        self._waiting.append(back)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for back in waiting:
            back.set()

    # --- reading ---------------------------------------------------------------------------------

    def load(self, timeout: float | None = None) -> Any:
        until = inf if timeout is None else monotonic() + timeout
        while True:
            name, problem = self.name, ""
            try:
                return self._load_now()
            except OSError as error:
                problem = str(error)
            except ValueLostError:
                if self._is_given_up:
                    raise
            owner, back = self._owner, Event()
            if owner is None or not owner.revive(self, name, problem, back):
                raise self._loss or ValueLostError(self.function, problem)
            while not back.wait(min(LOOK_SECONDS, max(until - monotonic(), 0.0))):
                if monotonic() >= until:
                    raise TimeoutError
                if self._owner is None:  # it ended before it heard of this
                    break

    def _load_now(self) -> Any:
        """The value as it is now. Raises OSError, or the ``loss``."""
        if self._loss is None and self._saved is not None:
            return load_value(str(self._saved[0]))
        return loads_value(self._content())

    def _content(self) -> bytes:
        """What is in the value's file at a host. Raises OSError, or the ``loss``."""
        if self._loss is not None:
            raise self._loss
        owner = self._owner
        if owner is None:
            raise ValueLostError(self.function, "its executor has ended")
        return owner.fetch(self)

    def save(self, path: Path, directory: object) -> None:
        """Write the value to a file here, or note that it is lost. ``directory`` is kept, too."""
        try:
            path.write_bytes(self._content())
            self._saved = (path, directory)
        except ValueLostError as error:
            self._loss = error
        except OSError as error:
            self._loss = ValueLostError(self.function, f"it could not be brought here: {error}")
        self._owner = None

    def __del__(self) -> None:
        if os.getpid() != self._process:  # in a fork of the caller
            return
        if self._saved is not None:
            with suppress(OSError):
                os.unlink(self._saved[0])
        elif self._owner is not None:
            self._owner.on_dropped(self.name, self.holders)


class _Connection(HTTPConnection):
    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address, timeout=CONNECT_SECONDS)
        self._ssl = context

    def connect(self) -> None:
        super().connect()
        self.sock = self._ssl.wrap_socket(self.sock, server_hostname=Role.NODE.value)
        self.sock.settimeout(SILENT_SECONDS)


def read_value(file: RemoteFile, addresses: list[str], context: ssl.SSLContext) -> bytes:
    """The content of a file that hosts at these addresses have. Raises OSError if none gives it.

    By a blocking connection: whoever waits for a result waits in a thread of its own, or in the
    executor's, where it must not wait for the executor's loop.
    """
    problem = "no node that has it is known"
    for address in addresses:
        connection = _Connection(address, context)
        try:
            connection.request("GET", f"{FILES_PATH}/{file.digest}")
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            problem = f"{address}: {error or type(error).__name__}"
            continue
        finally:
            connection.close()
        if response.status == 200 and blake3(content).hexdigest() == file.digest:
            return content
        problem = f"{address} does not give it ({response.status})"
    raise OSError(problem)
