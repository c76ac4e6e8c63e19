"""Opens the standard streams 0, 1 and 2 where they are closed, since all code relies on them."""

import os
import sys


def open_standard_streams() -> None:
    """Open the null device as each standard stream that is closed.

    Otherwise the next file to be opened (a lock, a socket or a journal) would get the stream's
    number, and whatever is printed would be written to that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
            os.set_inheritable(nothing, True)


def open_python_streams() -> None:
    """Open sys.stdout and sys.stderr again if they were closed, at Python's start or since."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - for good
