"""What a figure shows: panels of named series. Drawing is left to `drawing`, tables to `tables`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class PanelKind(Enum):
    LINES = "lines"
    BARS = "bars"  # x are names


class Source(Enum):
    """Where a series comes from; each is drawn in its own way."""

    SIMULATED = "simulated"
    BOUND = "bound"  # computed, not simulated
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one set of bars."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    source: Source = Source.SIMULATED

    @property
    def label(self) -> str:
        """The name that people see: what was not simulated is marked."""
        is_ours = self.source is Source.SIMULATED
        return self.name if is_ours else f"{self.name} ({self.source.value})"

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.y)


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. A logarithmic axis has its base, 2 or 10; a linear one has 0."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_base: int = 0
    y_base: int = 0
    kind: PanelKind = PanelKind.LINES
    y_max: float | None = None
    level: float | None = None  # a horizontal line: what was published, or what is ideal
    level_label: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure; ``panel_word`` and ``series_word`` are headings of its table."""

    name: str
    title: str
    panels: Sequence[Panel]
    panel_word: str = "panel"
    series_word: str = "strategy"

    def __post_init__(self) -> None:
        axes = {label for panel in self.panels for label in (panel.x_label, panel.y_label)}
        assert not axes & {self.panel_word, self.series_word}, "two columns of the table are one"


def series_of(
    name: str, curve: Sequence[tuple[float, float]], source: Source = Source.SIMULATED
) -> Series:
    return Series(name, [x for x, _ in curve], [y for _, y in curve], source)
