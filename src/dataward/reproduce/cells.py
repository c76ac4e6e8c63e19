"""Cells: independent measurements, each known by the name of its study and a few values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

Value = str | int | float
CellValues = Mapping[str, Value]
Numbers = Mapping[str, float | Sequence[float]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. ``weight`` is roughly its seconds: heavy cells are begun first."""

    values: tuple[tuple[str, Value], ...]
    weight: float = field(default=1.0, compare=False)

    def as_dict(self) -> dict[str, Value]:
        return dict(self.values)


def a_cell(weight: float = 1.0, **values: Value) -> Cell:
    return Cell(tuple(values.items()), weight)


@dataclass(frozen=True, slots=True)
class Study:
    """How the cells of one or several experiments are measured; all fields are pure functions.

    ``settings`` describes, in a text, everything that the numbers depend on besides the cell's own
    values: if the text has changed, numbers from an earlier run do not count. ``strategy`` is the
    name of the strategy that a cell needs, or "".
    """

    name: str
    measure: Callable[[CellValues], Numbers]
    settings: Callable[[CellValues], str]
    strategy: Callable[[CellValues], str]


class Results:
    """The numbers of many cells, asked for by the cells' values."""

    def __init__(self, numbers: Mapping[Cell, Numbers]) -> None:
        self._found = [(cell.as_dict(), numbers[cell]) for cell in numbers]

    def where(self, **values: Value) -> list[tuple[CellValues, Numbers]]:
        """The cells that have all of these values, in the order they were listed."""
        return [
            (cell, numbers)
            for cell, numbers in self._found
            if all(cell.get(name) == value for name, value in values.items())
        ]

    def axis(self, name: str, **values: Value) -> list[Value]:
        """The different values of one name among such cells, in the order they were listed."""
        return list(dict.fromkeys(cell[name] for cell, _ in self.where(**values)))

    def numbers(self, name: str, **values: Value) -> list[float]:
        """One number of each such cell."""
        return [as_number(numbers[name]) for _, numbers in self.where(**values)]

    def mean(self, name: str, **values: Value) -> float:
        """The mean of a number over all such cells, of which there must be at least one."""
        found = self.numbers(name, **values)
        assert found, f"no cell has {values}"
        return fmean(found)

    def curve(self, number: str, over: str, **values: Value) -> list[tuple[float, float]]:
        """The mean of a number at each value of ``over``, in rising order."""
        axis = sorted(as_number(value) for value in self.axis(over, **values))
        return [(x, self.mean(number, **{**values, over: x})) for x in axis]

    def mean_profile(self, name: str, **values: Value) -> list[float]:
        """The mean, place by place, of a list of numbers over all such cells."""
        profiles = [as_profile(numbers[name]) for _, numbers in self.where(**values)]
        assert profiles, f"no cell has {values}"
        return [fmean(column) for column in zip(*profiles, strict=True)]


def as_number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def as_profile(value: object) -> Sequence[float]:
    assert isinstance(value, list | tuple)
    return value


def without_repeats(cells: Iterable[Cell]) -> list[Cell]:
    return list(dict.fromkeys(cells))
