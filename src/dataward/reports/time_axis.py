"""Chooses the marks of a time axis and their names."""

from math import floor, log10

_STEPS_SECONDS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
    3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 5 * 86400, 10 * 86400,
)  # fmt: skip


def time_marks(end_seconds: float, marks_max: int = 12) -> list[tuple[float, str]]:
    """At most ``marks_max`` round times from 0 to the end, with their names."""
    if end_seconds <= 0:
        return [(0.0, "0")]
    step = _step_seconds(end_seconds / marks_max)
    count = floor(end_seconds / step * (1 + 1e-9))
    return [(i * step, _name(i * step, step)) for i in range(count + 1)]


def _step_seconds(at_least: float) -> float:
    if at_least < _STEPS_SECONDS[0] or at_least > _STEPS_SECONDS[-1]:
        unit = 86400.0 if at_least > 1 else 1.0
        size = 10.0 ** floor(log10(at_least / unit)) * unit
        return next(size * factor for factor in (1, 2, 5, 10, 20) if size * factor >= at_least)
    return next(float(step) for step in _STEPS_SECONDS if step >= at_least)


def _name(seconds: float, step: float) -> str:
    """The name of a mark, as short as the step allows: ``40 s``, ``5 min``, ``1:30 h``, ``2 d``."""
    if seconds == 0:
        return "0"
    if step < 1e-3:
        return f"{seconds * 1e6:.10g} µs"
    if step < 1:
        return f"{seconds * 1e3:.10g} ms" if seconds < 1 else f"{seconds:.10g} s"
    if step < 60:
        minutes, rest = divmod(round(seconds), 60)
        if not minutes:
            return f"{rest} s"
        return f"{minutes}:{rest:02d} min" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if step < 86400:
        if not hours:
            return f"{minutes} min"
        return f"{hours}:{minutes:02d} h" if minutes else f"{hours} h"
    return f"{round(seconds / 86400):,} d"
