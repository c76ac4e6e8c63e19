"""A file that comes in over the network: written beside the depot, and hashed on the way."""

import os
from dataclasses import dataclass
from typing import BinaryIO

from blake3 import blake3

from dataward.live.depot_disk import Place
from dataward.live.sandbox import FROM_ELSEWHERE
from dataward.world import DiskFull, TransferFailed


@dataclass
class Arriving:
    """A file with this digest that comes in, perhaps over several connections."""

    digest: str
    beside: BinaryIO
    size_bytes: int = -1  # -1: not known yet
    came_bytes: int = 0

    def __post_init__(self) -> None:
        self._hasher = blake3()

    def goes_on(self, size_bytes: int, offset: int) -> None:
        """Begin, or go on, with what a connection brings: raises TransferFailed if that differs."""
        if self.size_bytes not in (-1, size_bytes):
            raise TransferFailed("the source had another size of this file before")
        if offset != self.came_bytes:  # it does not serve parts: from the start again
            self.beside.seek(0)
            self.beside.truncate()
            self.came_bytes, self._hasher = 0, blake3()
        self.size_bytes = size_bytes

    def add(self, chunk: bytes | memoryview) -> None:
        """Raises DiskFull if the chunk cannot be written."""
        self._hasher.update(chunk)
        view = memoryview(chunk)
        try:
            while view:
                view = view[self.beside.write(view) :]
        except OSError as error:
            raise DiskFull(f"a file cannot be written here: {error.strerror}") from error
        self.came_bytes += len(chunk)

    @property
    def is_whole(self) -> bool:
        return self.came_bytes == self.size_bytes

    def place(self, path: str) -> Place:
        """Where the whole file is. Raises TransferFailed if it is not what was asked for."""
        if not self.is_whole or self._hasher.hexdigest() != self.digest:
            raise TransferFailed("it came with other bytes than it should have")
        os.chmod(path, FROM_ELSEWHERE)
        return Place(path, self.size_bytes, self.digest, False, os.stat(path).st_mtime_ns)
