"""The digest that files are named and compared by: BLAKE3, in hexadecimal digits."""

from io import FileIO

from blake3 import blake3

# Measured on 2 cores with a cached file: 3.9 GB/s by one thread, 4.8 GB/s by all threads; for less
# than LARGE_BYTES, waking them is not worth it. Mapping the file gives 5.3 GB/s, but if somebody
# truncates the file meanwhile, or its file server goes away, the system kills this process: there
# would be no error to report.
CHUNK_BYTES = 4 << 20
LARGE_BYTES = 16 << 20


def file_digest(file: FileIO, size_bytes: int) -> str:
    """The digest of an open file, read from where it stands to its end."""
    hasher = blake3(max_threads=blake3.AUTO if size_bytes >= LARGE_BYTES else 1)
    buffer = memoryview(bytearray(min(size_bytes + 1, CHUNK_BYTES)))
    while count := file.readinto(buffer):
        hasher.update(buffer[:count])
    return hasher.hexdigest()
