"""Streams 0, 1 and 2, which everybody takes for granted."""

import os
import sys


def open_standard_streams() -> None:
    """Have something at each of them.

    Where one is closed, the next file to be opened would take its place: a lock, a socket or a
    journal, which whoever prints would then write to.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(nothing, True)


def open_python_streams() -> None:
    """Python's own, if they were closed when it started, or have been closed since."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - for good
