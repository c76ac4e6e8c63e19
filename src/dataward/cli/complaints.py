"""Says on stderr, in one line, what went wrong: a sentence, or JSON for programs."""

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from dataward.cli.exit_codes import ExitCode

# Characters that garble a terminal, split a line or cannot be encoded; paths may contain them.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def visible(text: str | Path) -> str:
    """The text with invisible characters escaped."""
    return _UNSEEN.sub(lambda unseen: ascii(unseen[0])[1:-1], str(text))


def complain(sentence: str) -> None:
    """Print the sentence on stderr, in one line."""
    print(f"dataward: {visible(sentence)}", file=sys.stderr, flush=True)


def complain_of(sentence: str, code: ExitCode, arguments: Sequence[str]) -> ExitCode:
    """Print why a command ends, as JSON if ``--json`` is among its arguments. Returns the code."""
    if "--json" in arguments:
        import json

        error = json.dumps({"error": visible(sentence), "exit_code": int(code)})
        print(error, file=sys.stderr, flush=True)
    else:
        complain(sentence)
    return code


def complain_of_interrupt(arguments: Sequence[str], *, is_last: bool) -> ExitCode:
    """Say that Ctrl-C ended the command. Returns the exit code, or ends the process if asked to.

    Python's own end is skipped then: interrupted code leaves it threads and a flag that says to
    die of the signal.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = complain_of("interrupted", ExitCode.INTERRUPTED, arguments)
    if is_last:
        sys.stdout.flush()
        os._exit(code)
    signal.signal(signal.SIGINT, before)
    return code
