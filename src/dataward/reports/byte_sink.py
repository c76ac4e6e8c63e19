"""A file written piece by piece, compressed if its name ends in .gz."""

from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, cast

from dataward.errors import OutputError

BUFFER_BYTES = 1 << 16


class ByteSink:
    """Where a report streams its bytes. What the disk refuses is raised as OutputError.

    Equal bytes make equal files, compressed or not: no time stamp and no name go in.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._raw = path.open("ab" if append else "wb", buffering=BUFFER_BYTES)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise self._refusal(error) from error
        self._out: BinaryIO = self._raw
        if path.suffix == ".gz":
            # Level 6 shrinks events to a seventh; 9 takes twice as long for 2% more.
            squeezed = GzipFile("", "wb", 6, self._raw, mtime=0)
            self._out = cast(BinaryIO, squeezed)

    def write(self, piece: bytes | bytearray) -> None:
        try:
            self._out.write(piece)
        except OSError as error:
            raise self._refusal(error) from error

    def flush(self) -> None:
        """Hand everything to the operating system: it then survives this process."""
        try:
            self._out.flush()  # GzipFile passes it on
        except OSError as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        try:
            try:
                self._out.close()
            finally:
                self._raw.close()
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> OutputError:
        words = error.strerror if isinstance(error, OSError) else None
        return OutputError(str(self.path), words or str(error))
