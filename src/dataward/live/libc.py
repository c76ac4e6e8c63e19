"""What the system's C library can do and Python's ``os`` cannot."""

import ctypes
from functools import cache


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
