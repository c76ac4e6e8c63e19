"""Draws charts with matplotlib, as SVG and PNG; the same chart gives the same bytes."""

from collections.abc import Sequence
from importlib.util import find_spec
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataward.errors import OutputError, SettingError
from dataward.reproduce.charts import Chart, Panel, PanelKind, Series, Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES = 8.4
PANEL_INCHES = 3.1
LEGEND_INCHES = 0.32  # for each row of a legend below the panels
LEGEND_COLUMNS = 4
PIXELS_PER_INCH = 100
TICKS_MAX = 7

# Okabe and Ito's colours, which most colour-blind people can tell apart; yellow is too pale here.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = {Source.SIMULATED: "-", Source.BOUND: "--", Source.PAPER: ":"}
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "dataward",
}


def check_drawing() -> None:
    """Raise SettingError if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise SettingError(
            "drawing needs matplotlib, which is not installed: pip install 'dataward[plots]'"
        )


def draw_chart(chart: Chart, directory: Path) -> list[Path]:
    """The files drawn. Raises OutputError."""
    from matplotlib import rc_context

    paths = [directory / f"{chart.name}.svg", directory / f"{chart.name}.png"]
    with rc_context(STYLE):
        figure = _figure(chart)
        for path, told in zip(paths, ({"Date": None}, {"Software": None}), strict=True):
            try:
                figure.savefig(path, dpi=PIXELS_PER_INCH, metadata=told)
            except OSError as error:
                raise OutputError(str(path), error.strerror or str(error)) from error
    return paths


def _figure(chart: Chart) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    count = len(chart.panels)
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    names, labels = series_names(chart), series_labels(chart)
    free = rows * columns - count  # a free place takes the legend
    legend_rows = 0 if free or len(labels) < 2 else -(-len(labels) // LEGEND_COLUMNS)
    height = rows * PANEL_INCHES * (1.3 if count == 1 else 1.0) + LEGEND_INCHES * (legend_rows + 1)
    figure = Figure(figsize=(WIDTH_INCHES, height), layout=ConstrainedLayoutEngine(w_pad=0.12))
    figure.suptitle(chart.title, fontsize=11, fontweight="bold")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for panel, place in zip(chart.panels, axes, strict=False):
        _draw_panel(place, panel, names)
    for place in axes[count:]:
        place.set_axis_off()
    handles = _handles(axes[:count])
    if free and len(labels) > 1:
        axes[count].legend(handles.values(), handles, loc="center", frameon=False)
    elif len(labels) > 1:
        columns = min(LEGEND_COLUMNS, len(labels))
        figure.legend(
            handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False
        )
    return figure


def series_names(chart: Chart) -> list[str]:
    """Every name once: a name has the same colour in all panels."""
    return list(dict.fromkeys(s.name for panel in chart.panels for s in panel.series))


def series_labels(chart: Chart) -> list[str]:
    return list(dict.fromkeys(s.label for panel in chart.panels for s in panel.series))


def _handles(axes: Sequence["Axes"]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place in axes:
        for handle, name in zip(*place.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return found


def _draw_panel(axes: "Axes", panel: Panel, names: Sequence[str]) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.kind is PanelKind.BARS:
        _draw_bars(axes, panel, names)
    else:
        for series in panel.series:
            _draw_line(axes, series, names.index(series.name))
    _scale(axes, panel)
    if panel.level is not None:
        axes.axhline(panel.level, color="#555555", linestyle=":", linewidth=1.2, zorder=1)
        axes.annotate(
            panel.level_label,
            (1.0, panel.level),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color="#555555",
        )


def _draw_line(axes: "Axes", series: Series, place: int) -> None:
    many = len(series.x) > 40
    axes.plot(
        [float(x) for x in series.x],
        list(series.y),
        label=series.label,
        color=COLOURS[place % len(COLOURS)],
        marker=None if many else MARKERS[place % len(MARKERS)],
        markersize=8 if series.source is Source.PAPER else 4.5,
        markerfacecolor="none" if series.source is Source.PAPER else None,
        linewidth=1.6,
        linestyle=LINES[series.source],
    )


def _draw_bars(axes: "Axes", panel: Panel, names: Sequence[str]) -> None:
    groups = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    wide = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        offset = (number - (len(panel.series) - 1) / 2) * wide
        colour = COLOURS[names.index(series.name) % len(COLOURS)]
        places = [groups.index(str(x)) + offset for x in series.x]
        bars = axes.bar(places, list(series.y), 0.92 * wide, label=series.label, color=colour)
        if len(groups) * len(panel.series) <= 16:
            axes.bar_label(bars, fmt="{:.3g}", fontsize=8, padding=1)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")


def _scale(axes: "Axes", panel: Panel) -> None:
    if panel.x_base:
        axes.set_xscale("log", base=panel.x_base)
        _tick_at(axes, panel)
    if panel.y_base:
        axes.set_yscale("log", base=panel.y_base)
        _label_y(axes, panel)
    else:
        axes.set_ylim(0.0, panel.y_max)


def _tick_at(axes: "Axes", panel: Panel) -> None:
    """Label a logarithmic axis at its points, written out; at every second one if many."""
    points = sorted({float(x) for series in panel.series for x in series.x})
    step = -(-len(points) // TICKS_MAX)
    shown = points[::-1][::step][::-1]
    axes.set_xticks(shown, [_short(x) for x in shown])
    axes.minorticks_off()


def _label_y(axes: "Axes", panel: Panel) -> None:
    """Write the numbers of a logarithmic axis out, and more of them if it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    values = [y for series in panel.series for y in series.y if y > 0]
    decades = log10(max(values) / min(values)) if values else 0.0
    subs = (1.0,) if decades > 2 else (1.0, 2.0, 5.0) if decades > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    axes.yaxis.set_major_locator(LogLocator(base=panel.y_base, subs=subs, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _short(x: float) -> str:
    for size, unit in ((1024**2, "M"), (1024, "K")):
        if x >= 2048 and x % size == 0:
            return f"{x / size:g}{unit}"
    return f"{x:g}"
