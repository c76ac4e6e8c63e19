"""Writes a chart's points as CSV: one row for each point."""

import csv
from io import StringIO

from dataward.reproduce.charts import Chart


def as_csv(chart: Chart) -> str:
    """The chart's points. Panels with different axes have different columns, empty for others."""
    columns = _columns(chart)
    text = StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    for panel in chart.panels:
        for series in panel.series:
            for x, y in zip(series.x, series.y, strict=True):
                writer.writerow(
                    {
                        chart.panel_word: panel.title,
                        chart.series_word: series.label,
                        panel.x_label: _shown(x),
                        panel.y_label: _shown(y),
                    }
                )
    return text.getvalue()


def _columns(chart: Chart) -> list[str]:
    axes = [label for panel in chart.panels for label in (panel.x_label, panel.y_label)]
    return list(dict.fromkeys([chart.panel_word, chart.series_word, *axes]))


def _shown(value: float | str) -> str:
    return value.replace("\n", " ") if isinstance(value, str) else f"{value:.6g}"
