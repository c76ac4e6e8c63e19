"""Runs a command line, and turns every error into one message and an exit code."""

import codecs
import errno
import io
import os
import sys
from collections.abc import Sequence

from dataward.cli.commands import run
from dataward.cli.complaints import complain_of
from dataward.cli.exit_codes import ExitCode
from dataward.errors import (
    DatawardError,
    DeadlineRefusedError,
    OutputError,
    OwnFaultError,
    SettingError,
)
from dataward.live.standard_streams import open_python_streams, open_standard_streams


def run_command_line(words: Sequence[str]) -> int:
    """The exit code of the command, after its error, if any, has been printed.

    Raises KeyboardInterrupt.
    """
    open_standard_streams()
    open_python_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal cannot show are escaped instead of raising an error.
        codecs.register_error("dataward", _spell_out)
        sys.stdout.reconfigure(errors="dataward")
    try:
        run(words)
        sys.stdout.flush()  # here, where a failure can still be reported
        return ExitCode.OK
    except DatawardError as error:
        return complain_of(str(error), _exit_code(error), words)
    except MemoryError:
        return complain_of("not enough memory for this", ExitCode.FAILED, words)
    except (OSError, SystemExit) as stop:
        if _reader_has_left(stop):
            # The reader of the pipe, such as `head`, has ended: not an error.
            _discard_stdout()
            return ExitCode.OK
        if isinstance(stop, SystemExit):
            sys.stdout.flush()
            return int(stop.code or 0)
        if stop.errno in (errno.EMFILE, errno.ENFILE):
            remedy = "raise the limit (ulimit -n), or use fewer slots"
            return complain_of(f"too many open files; {remedy}", ExitCode.FAILED, words)
        # Other files raise our own errors, so this is most likely stdout on a full disk.
        _discard_stdout()
        problem = f"cannot write {stop.filename or 'the result'}: {stop.strerror or stop}"
        return complain_of(problem, ExitCode.CANNOT_WRITE, words)


def _spell_out(error: UnicodeError) -> tuple[str | bytes, int]:
    """Like ``backslashreplace``, but the bullets of lists become asterisks."""
    if isinstance(error, UnicodeEncodeError) and error.object[error.start] == "•":
        return "*", error.start + 1
    return codecs.backslashreplace_errors(error)


def _reader_has_left(stop: BaseException) -> bool:
    """Whether this is a broken pipe, or the exit into which rich turns one."""
    return isinstance(stop, BrokenPipeError) or isinstance(stop.__context__, BrokenPipeError)


def _discard_stdout() -> None:
    """Redirect stdout to nowhere, so that Python's last flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_code(error: DatawardError) -> ExitCode:
    if isinstance(error, SettingError):
        return ExitCode.USAGE
    if isinstance(error, DeadlineRefusedError):
        return ExitCode.REFUSED
    if isinstance(error, OutputError):
        return ExitCode.CANNOT_WRITE
    if isinstance(error, OwnFaultError):
        return ExitCode.FAILED
    return ExitCode.BAD_INPUT
