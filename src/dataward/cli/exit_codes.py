"""The exit codes of dataward."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1  # the work itself failed
    USAGE = 2  # the command line makes no sense
    BAD_INPUT = 3  # a workflow, platform or event file is wrong
    CANNOT_WRITE = 4  # a result cannot be written
    PARTIAL = 5  # tasks were removed; all others are complete
    REFUSED = 6  # the workflow cannot be promised by its deadline; nothing was run
    INTERRUPTED = 130  # Ctrl-C
