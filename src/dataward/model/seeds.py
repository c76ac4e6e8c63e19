"""Random streams: one for each purpose, with the same numbers in every process."""

from hashlib import blake2b
from random import Random


def seeded(*words: object) -> Random:
    """A random stream seeded from a digest of these words; ``hash()`` differs between processes."""
    digest = blake2b("\0".join(map(str, words)).encode(), digest_size=16).digest()
    return Random(int.from_bytes(digest, "big"))
