"""A file's bytes in chunks, unpacked if compressed, up to a size limit."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataward.errors import FormatError

CHUNK_BYTES = 1 << 20
# Input is inflated in small slices, because zlib copies the rest of a slice at the end of every
# gzip member: a file of a million empty members would copy a whole chunk a million times.
_SLICE_BYTES = 1 << 14
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The sizes above which a file is refused as an attack or an accident."""

    size_bytes_max: int = 8 * 2**30  # a million tasks take some 0.5 GB
    inflation_max: int = 400  # gzip makes real traces 10 to 100 times smaller; at most 1032
    inflation_from_bytes: int = 64 * 2**20  # below this, any inflation is harmless


def file_chunks(path: Path, source: str) -> Iterator[bytes]:
    """The file's bytes as they are on disk, in chunks."""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except FileNotFoundError as error:
        raise FormatError(source, "there is no such file") from error
    except IsADirectoryError as error:
        raise FormatError(source, "is a directory", remedy="name a workflow file in it") from error
    except OSError as error:
        raise FormatError(source, f"cannot be read ({error.strerror})") from error
    except ValueError as error:  # a NUL in the path
        raise FormatError(source, f"cannot be read ({error})") from error


def unpacked(chunks: Iterable[bytes], source: str, limits: ReadLimits) -> Iterator[bytes]:
    """The same content, unpacked if it was gzipped. Raises FormatError beyond the limits."""
    walk = iter(chunks)
    first = next(walk, b"")
    if first.startswith(GZIP_MAGIC):
        yield from _inflated(_chained(first, walk), source, limits)
        return
    total = 0
    for chunk in _chained(first, walk):
        total += len(chunk)
        _check_size(total, source, limits)
        yield chunk


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _inflated(chunks: Iterable[bytes], source: str, limits: ReadLimits) -> Iterator[bytes]:
    taken = given = 0
    member = zlib.decompressobj(wbits=31)
    begun = False
    for piece in _sliced(chunks):
        taken += len(piece)
        left = piece
        while left:
            if not begun:
                left = left.lstrip(b"\0")  # padding between and after members
                if not left:
                    break
                begun = True
            try:
                out = member.decompress(left, CHUNK_BYTES)
            except zlib.error as error:
                raise FormatError(source, f"its gzip compression is damaged ({error})") from error
            given += len(out)
            _check_size(given, source, limits)
            _check_inflation(taken, given, source, limits)
            if out:
                yield out
            left = member.unconsumed_tail
            if member.eof:
                left = member.unused_data
                member = zlib.decompressobj(wbits=31)
                begun = False
    if begun:
        raise FormatError(source, "its gzip compression ends early", remedy="fetch the file again")


def _sliced(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]


def _check_size(size_bytes: int, source: str, limits: ReadLimits) -> None:
    if size_bytes > limits.size_bytes_max:
        raise FormatError(source, f"holds more than {limits.size_bytes_max} bytes")


def _check_inflation(taken: int, given: int, source: str, limits: ReadLimits) -> None:
    if given > limits.inflation_from_bytes and given > taken * limits.inflation_max:
        raise FormatError(
            source,
            f"unpacks to more than {limits.inflation_max} times its size, as gzip bombs do",
            remedy="unpack it yourself if you trust it",
        )
