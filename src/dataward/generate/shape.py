"""Defines a shape of workflow, and the draft that a shape fills with tasks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from numpy.random import RandomState

from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow

Values = Mapping[str, float]


class Draft:
    """A workflow being made; tasks are numbered in the order they are added."""

    def __init__(self, name: str) -> None:
        self._builder = WorkflowBuilder(name)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def file(self, name: str, size_bytes: int) -> str:
        """Declare a file and return its name."""
        return self._builder.file(name, size_bytes)

    def task(
        self, name: str, seconds: float, inputs: Iterable[str], outputs: Iterable[str]
    ) -> None:
        self._count += 1
        self._builder.task(
            f"ID{self._count:07d}",
            name=name,
            inputs=inputs,
            outputs=outputs,
            runtime_seconds=seconds,
        )

    def warn(self, sentence: str) -> None:
        self._builder.warn(sentence)

    def build(self) -> Workflow:
        return self._builder.build()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting of a shape besides its size; a whole number if the default is an int."""

    name: str
    default: float
    meaning: str
    low: float
    high: float = float("inf")


def _as_asked(tasks: int, values: Values) -> int:
    return tasks


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of workflow that can be made at any size.

    ``granularity`` says in words which sizes are possible. ``nearest`` returns the size that is
    made when a number of tasks is asked for; ``fill`` adds exactly that many tasks to a draft.
    """

    name: str
    description: str
    granularity: str
    smallest: int
    fill: Callable[[Draft, int, RandomState, Values], None]
    parameters: tuple[Parameter, ...] = ()
    nearest: Callable[[int, Values], int] = _as_asked
