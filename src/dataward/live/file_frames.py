"""Many small files in one stream: for each file its digest, its size, and its bytes."""

from collections.abc import Sequence
from struct import Struct
from typing import Annotated, NamedTuple, Protocol

import msgspec

from dataward.world import TransferFailed

DIGEST_BYTES = 32
ABSENT = -1  # in place of a size: the file is not here
ALONE = -2  # in place of a size: the file is too large for a batch, and must be asked for alone

DigestBytes = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]

_HEAD = Struct(f"!{DIGEST_BYTES}sq")
_LIST = msgspec.msgpack.Decoder(list[DigestBytes])


class FileFrame(NamedTuple):
    """A file of a batch; ``size_bytes`` may be ABSENT or ALONE, with no content."""

    digest: str
    size_bytes: int
    content: bytes


class ByteStream(Protocol):
    async def readexactly(self, count: int, /) -> bytes: ...


def encoded_digests(digests: Sequence[str]) -> bytes:
    return msgspec.msgpack.encode([bytes.fromhex(digest) for digest in digests])


def decoded_digests(body: bytes) -> list[str]:
    """The digests of a list. Raises ValueError if these bytes are none."""
    try:
        return [digest.hex() for digest in _LIST.decode(body)]
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def frame_head(digest: str, size_bytes: int) -> bytes:
    return _HEAD.pack(bytes.fromhex(digest), size_bytes)


async def next_frame(stream: ByteStream, digest: str, content_bytes_max: int) -> FileFrame:
    """Raises TransferFailed if it is of another file or too large, and IncompleteReadError."""
    found, size_bytes = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    if found.hex() != digest or not ALONE <= size_bytes <= content_bytes_max:
        raise TransferFailed(f"a frame of {size_bytes} bytes came for {found.hex()}")
    content = await stream.readexactly(size_bytes) if size_bytes > 0 else b""
    return FileFrame(digest, size_bytes, content)
