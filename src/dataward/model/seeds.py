"""Random streams: one for each purpose, the same in every process."""

from hashlib import blake2b
from random import Random


def seeded(*words: object) -> Random:
    """The stream of these words. Python's own ``hash`` differs from process to process."""
    digest = blake2b("\0".join(map(str, words)).encode(), digest_size=16).digest()
    return Random(int.from_bytes(digest, "big"))
