"""Reads what all versions of WfFormat share: commands, quantities, and edges declared twice."""

import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from dataward.errors import FormatError, WorkflowError
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import type_of

Share = Callable[[str], str]

_SHARED_MAX = 10_000
_WFBENCH = ("wfbench", "wfbench.py")


class WfCommand(Struct, gc=False):
    program: str | None = None
    arguments: list[str] | None = None


def words_of(command: WfCommand | None, task_name: str, share: Share) -> tuple[str, ...] | None:
    """The words to execute. If only arguments were recorded, the task's type is the program."""
    if command is None:
        return None
    if command.program is not None:
        words: Iterable[str] = command.arguments or ()
        if command.program.rpartition("/")[2] in _WFBENCH:
            words = _wfbench_words(words)
        return (share(command.program), *words)
    return (share(type_of(task_name)), *command.arguments) if command.arguments else ()


def _wfbench_words(arguments: Iterable[str]) -> Iterator[str]:
    """The words of a WfBench task, whose arguments are each an option and its value in one text.

    WfCommons' translators put them into a line for the shell, and turn Python's lists and
    dictionaries of files into JSON, as ``wfbench`` wants them.
    """
    for argument in arguments:
        option, blank, value = argument.partition(" ")
        if not blank or not option.startswith("--"):
            yield argument
        elif value.startswith("-"):  # as two words it would be taken for another option
            yield f"{option}={value}"
        else:
            yield option
            yield _as_json(value) if value[0:1] in ("[", "{") else value


def _as_json(text: str) -> str:
    try:
        return json.dumps(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def sharing() -> Share:
    """A function that returns one object for equal strings: programs repeat in every task."""
    pool: dict[str, str] = {}

    def share(text: str) -> str:
        known = pool.get(text)
        if known is None:
            known = text
            if len(pool) < _SHARED_MAX:
                pool[text] = text
        return known

    return share


def cores_of(count: int | float) -> int:
    """The count rounded up to 1 or more; traces write fractions, and 0 for a task that hardly ran.

    A negative count stays negative, for the builder to refuse.
    """
    return max(1, math.ceil(count)) if count >= 0 else math.floor(count)


def whole_bytes(size: int | float) -> int:
    """The size rounded up to whole bytes. A negative one stays so, for the builder to refuse."""
    if size < 0:
        return min(math.floor(size), -2)  # -1 means unknown to the builder
    return math.ceil(size)


class DeclaredTwice:
    """Tells whether ``parents`` and ``children`` declare the same edges, without storing them.

    The hashes of all edges are added up on both sides. Equal sums mean equal edges (wrong once in
    2**60), so the usual document, where both lists are complete, needs no second pass.
    """

    def __init__(self) -> None:
        self._balance = 0

    def note(self, task: str, parents: Sequence[str], children: Sequence[str]) -> None:
        balance = self._balance
        for parent in parents:
            balance += hash((parent, task))
        for child in children:
            balance -= hash((task, child))
        self._balance = balance

    @property
    def agree(self) -> bool:
        return self._balance == 0


def declare_children(
    builder: WorkflowBuilder,
    source: str,
    place: str,
    families: Iterable[tuple[str, Sequence[str]]],
) -> None:
    """Add the edges of ``children``, in a document whose ``parents`` declare different edges."""
    builder.warn("its 'parents' and 'children' declare different edges; all of them are used")
    for index, (parent, children) in enumerate(families):
        for child in children:
            try:
                builder.order(parent, child)
            except WorkflowError as error:
                raise FormatError(
                    source,
                    f"task {parent!r} comes before {child!r}, but there is no such task",
                    place=f"{place}[{index}].children",
                ) from error
