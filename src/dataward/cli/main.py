"""The ``dataward`` command: loads everything else where Ctrl-C is caught."""

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit; neither bad input nor Ctrl-C ever shows a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        from dataward.cli.command_line import run_command_line

        code = run_command_line(given)
        if arguments is None:  # a process of our own: while Python ends, Ctrl-C ends it at once
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        from dataward.cli.complaints import INTERRUPTED, complain_of

        code = complain_of("interrupted", INTERRUPTED, given)
        if arguments is not None:
            signal.signal(signal.SIGINT, before)
    sys.exit(code)


if __name__ == "__main__":
    main()
