"""The layout of a large value in a file: a pickle, and the large buffers of arrays beside it.

Buffers are written from where they are and, when the file is mapped, used where they are: a value
of many megabytes is copied once, to the file, however many calls of this machine read it. A value
without large buffers is a plain pickle. Every runner process loads this module, so it imports
little.
"""

import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Any

Part = bytes | memoryview
Pickling = Callable[..., bytes]

APART_BYTES = 64 << 10  # buffers of at least so many bytes are kept out of the pickle

_MARK = b"\x89values1"  # no pickle begins so
_HEAD = Layout("<8sQQ")  # the mark, bytes of pickle, number of buffers; then the bytes of each
_SIZE = Layout("<Q")
_ALIGNED_BYTES = 64  # every buffer begins at a multiple, as numpy and the processor like it


def value_parts(value: Any, dumps: Pickling) -> list[Part]:
    """What a file of the value consists of, one part after another.

    ``dumps`` pickles as that of `pickle` does.
    """
    apart: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes >= APART_BYTES:
            apart.append(view)
            return False
        return True

    pickled = dumps(value, 5, buffer_callback=stays_inside)
    if not apart:
        return [pickled]
    sizes = b"".join(_SIZE.pack(view.nbytes) for view in apart)
    parts: list[Part] = [_HEAD.pack(_MARK, len(pickled), len(apart)) + sizes + pickled]
    for view in apart:
        parts += [b"\0" * _gap(size_of(parts)), view]
    return parts


def load_value(path: str) -> Any:
    """The value in a file. Its buffers can be written to, which changes neither file nor value."""
    with open(path, "rb", buffering=0) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes < APART_BYTES:
            return pickle.loads(file.read())
        return loads_value(mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_COPY))


def loads_value(content: "bytes | mmap.mmap") -> Any:
    """The value of which this is the file's content."""
    if content[: len(_MARK)] != _MARK:
        return pickle.loads(content)
    if isinstance(content, bytes):
        content = _writable(content)
    _, pickle_bytes, count = _HEAD.unpack_from(content)
    view, at = memoryview(content), _HEAD.size + count * _SIZE.size
    pickled, at = view[at : at + pickle_bytes], at + pickle_bytes
    buffers = []
    for number in range(count):
        (size,) = _SIZE.unpack_from(content, _HEAD.size + number * _SIZE.size)
        at += _gap(at)
        buffers.append(view[at : at + size])
        at += size
    return pickle.loads(pickled, buffers=buffers)


def _writable(content: bytes) -> mmap.mmap:
    """A copy in memory that begins at a page, so that buffers are aligned as in a file."""
    copy = mmap.mmap(-1, len(content))
    copy[:] = content
    return copy


def _gap(size_bytes: int) -> int:
    return -size_bytes % _ALIGNED_BYTES


def size_of(parts: Sequence[Part]) -> int:
    return sum(memoryview(part).nbytes for part in parts)
