"""The system's C library, for calls that Python's ``os`` does not have."""

import ctypes
from functools import cache


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
