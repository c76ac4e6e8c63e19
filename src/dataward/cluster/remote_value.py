"""A large result that stays at the host that made it, until the caller asks for it."""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Protocol

from blake3 import blake3

from dataward.calls.future import StoredResult
from dataward.cluster.call_wire import ValueName
from dataward.errors import ValueLostError
from dataward.live.call_results import InFile
from dataward.live.credentials import Role
from dataward.live.served_files import FILES_PATH
from dataward.live.value_files import load_value, loads_value
from dataward.model.ids import NodeId

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0


class RemoteFile(InFile, frozen=True, array_like=True):
    """A file of that name in the directory of the executor, at any host that has it."""

    digest: str = ""
    size_bytes: int = 0


class ValueOwner(Protocol):
    """The lender through whose connections the hosts keep the values."""

    def on_new_value(self, value: "RemoteValue") -> None: ...

    def fetch(self, value: "RemoteValue") -> bytes:
        """The content of the value's file, from a host that has it. Raises ValueLostError."""
        ...

    def on_dropped(self, name: ValueName, holders: list[NodeId]) -> None:
        """Nobody refers to this value any more; any thread may say so."""
        ...


class RemoteValue(StoredResult):
    """``holders`` are the nodes that have the value, or were told to bring it in."""

    __slots__ = (
        "_file",
        "_loss",
        "_owner",
        "_process",
        "_saved",
        "function",
        "holders",
        "maker",
        "name",
    )

    def __init__(
        self, name: ValueName, file: RemoteFile, function: str, maker: NodeId, owner: ValueOwner
    ) -> None:
        self.name = name
        self.function = function
        self.maker = maker
        self.holders = [maker]
        self._file = file
        self._owner: ValueOwner | None = owner
        self._saved: tuple[Path, object] | None = None
        self._loss: ValueLostError | None = None
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
    def loss(self) -> ValueLostError | None:
        return self._loss

    def on_gone(self, node: NodeId, how: str) -> None:
        """A node is gone: the value is lost if no other has it."""
        if node in self.holders:
            self.holders.remove(node)
            if not self.holders and self._saved is None:
                self._loss = ValueLostError(self.function, how)

    def load(self) -> Any:
        if self._loss is not None:
            raise self._loss
        if self._saved is not None:
            return load_value(str(self._saved[0]))
        assert self._owner is not None
        return loads_value(self._owner.fetch(self))

    def save(self, path: Path, directory: object) -> None:
        """Write the value to a file here, or note that it is lost. ``directory`` is kept, too."""
        try:
            if self._loss is not None:
                raise self._loss
            assert self._owner is not None
            path.write_bytes(self._owner.fetch(self))
            self._saved = (path, directory)
        except ValueLostError as error:
            self._loss = error
        except OSError as error:
            self._loss = ValueLostError(self.function, f"it could not be written here: {error}")
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
