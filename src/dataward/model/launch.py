"""How a command is started, beside its words. Few tasks need it, and a task without has None.

Runner processes load this module, so it imports little.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Launch(NamedTuple):
    """The files on a command's standard streams, and variables added to its environment.

    A stream without a file is "": there is nothing to read, and what is printed goes to the logs.
    """

    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    env: tuple[tuple[str, str], ...] = ()  # in the order of names

    @property
    def printed(self) -> tuple[str, ...]:
        """The files that the command prints to, each once."""
        return tuple(dict.fromkeys(file for file in (self.stdout, self.stderr) if file))


def launch_of(
    stdin: str = "", stdout: str = "", stderr: str = "", env: Mapping[str, str] | None = None
) -> Launch | None:
    """The launch of a command with these streams and variables; None if it has none of them."""
    launch = Launch(stdin, stdout, stderr, tuple(sorted((env or {}).items())))
    return launch if any(launch) else None
