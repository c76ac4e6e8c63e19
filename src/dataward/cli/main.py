"""The ``dataward`` command: everything else is loaded where Ctrl-C is caught."""

import gc
import sys

TYPE_CHECKING = False  # for type checkers it is True; ``typing`` itself is not loaded here

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

GC_THRESHOLD = 50_000  # Python's 700 would search for cycles all the while modules are loaded


def main(arguments: "Sequence[str] | None" = None) -> "NoReturn":
    """Run one command and exit; neither bad input nor Ctrl-C ever shows a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None:
        gc.set_threshold(GC_THRESHOLD)
    try:
        from dataward.cli.command_line import run_command_line

        code: int | None = run_command_line(given)
        if arguments is None:
            _let_ctrl_c_end_python()
            gc.freeze()  # Python's end would search every object for cycles: 30 ms
    except KeyboardInterrupt:
        code = None
    if code is None:  # not above, where the exception still holds all that was interrupted
        from dataward.cli.complaints import complain_of_interrupt

        code = complain_of_interrupt(given, is_last=arguments is None)
    sys.exit(code)


def _let_ctrl_c_end_python() -> None:
    """From now on, while Python ends, Ctrl-C ends the process without a word."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
