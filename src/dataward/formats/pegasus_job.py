"""What DAX and Pegasus 5 YAML have in common: a job that uses files and carries profiles."""

import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dataward.errors import FormatError, WorkflowError
from dataward.formats.numerals import parse_number
from dataward.formats.pegasus_catalogs import Catalogs, Edition
from dataward.model.builder import WorkflowBuilder
from dataward.model.launch import launch_of

# "none" and "checkpoint" count as neither: only one job reads and writes a checkpoint, so the
# checkpoint does not order jobs.
_READS = ("input", "inout")
_WRITES = ("output", "inout")
_LINKS = ("", "none", "input", "output", "inout", "checkpoint")


@contextmanager
def placed(source: str, line: int) -> Iterator[None]:
    """Turn a WorkflowError of the builder into a FormatError that names the line."""
    try:
        yield
    except WorkflowError as error:
        raise FormatError(source, str(error), place=f"line {line}") from error


@dataclass(slots=True)
class PegasusJob:
    """One job while it is being read."""

    source: str
    line: int
    id: str
    name: str
    edition: Edition = ("", "")
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    arguments: str | None = None
    runtime_seconds: float = 0.0
    cores: int = 1
    memory_bytes: int = 0
    retries: int | None = None
    streams: dict[str, str] = field(default_factory=dict)  # files by name, as stdin
    env: dict[str, str] = field(default_factory=dict)

    def use(self, file: str, link: str, line: int) -> None:
        link = link.lower()
        if link not in _LINKS:
            problem = f"a file is used as {link!r}; it can be input, output or inout"
            raise FormatError(self.source, problem, place=f"line {line}")
        if link in _READS:
            self.inputs.append(file)
        if link in _WRITES:
            self.outputs.append(file)

    def profile(self, namespace: str, key: str, text: str, line: int) -> None:
        """Use a profile if dataward understands it; most are for Condor or the grid."""
        match (namespace.lower(), key.lower()):
            case ("pegasus", "runtime"):
                self.runtime_seconds = quantity(self.source, line, key, text)
            case ("pegasus", "cores"):
                self.cores = math.ceil(quantity(self.source, line, key, text))
            case ("pegasus", "memory"):  # in MB, according to Pegasus' manual
                self.memory_bytes = math.ceil(quantity(self.source, line, key, text) * 1_000_000)
            case ("dagman", "retry"):
                self.retries = math.ceil(quantity(self.source, line, key, text))
            case ("env", _):
                self.env[key] = text

    def command(self, program: str) -> list[str] | None:
        """The words to execute. A job of which nothing tells how it is run has no command."""
        if self.arguments is None and not self.streams and not program:
            return None
        return [program or self.name, *words(self.arguments or "")]

    def add_to(self, builder: WorkflowBuilder, catalogs: Catalogs) -> None:
        """Add the job as a task. A catalog's variables go before the job's own, as for Pegasus."""
        known = catalogs.transformation(self.name, self.edition)
        env = {**self.env, **known.variables} if known else self.env
        with placed(self.source, self.line):
            builder.task(
                self.id,
                name=self.name,
                command=self.command(known.placed.path if known else ""),
                inputs=self.inputs,
                outputs=self.outputs,
                runtime_seconds=self.runtime_seconds,
                cores=self.cores,
                memory_bytes=self.memory_bytes,
                retries=self.retries,
                launch=launch_of(**self.streams, env=env),
            )


def words(arguments: str) -> list[str]:
    """A command line's words. Quotes count only if each has its partner."""
    if not any(mark in arguments for mark in "'\"\\"):
        return arguments.split()
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def quantity(source: str, line: int, what: str, text: str) -> float:
    """The number that the text denotes. Raises FormatError unless it is a finite number."""
    number = parse_number(text)
    if number is None or not math.isfinite(number):
        raise FormatError(source, f"{what} {text[:40]!r} is not a number", place=f"line {line}")
    return number


def size_bytes(source: str, line: int, text: str) -> int:
    """A file's size. Some writers put -1 for an unknown size; it stays -1."""
    return math.ceil(quantity(source, line, "file size", text))


def order(builder: WorkflowBuilder, source: str, line: int, parent: str, child: str) -> None:
    """Declare an edge. The child must already be in the builder."""
    with placed(source, line):
        builder.order(parent, child)
