"""Says in a few words how long a run takes, or still takes."""

from typing import Any

from dataward.model.quantities import show_seconds
from dataward.plan.end_forecast import EndForecast

LONG_SECONDS = 99.5  # from here on, durations have minutes


def show_rough(seconds: float) -> str:
    """The duration without milliseconds, which a forecast does not have."""
    return f"{seconds:.0f} s" if seconds < LONG_SECONDS else show_seconds(seconds)


def _show(seconds: float) -> str:
    """Two digits are as many as a forecast has."""
    return f"{seconds:.1f} s" if seconds < 9.95 else show_rough(seconds)


def show_range(forecast: EndForecast) -> str:
    """A range such as ``9.1 to 17 s``, or ``1 min 40 s to 2 min 05 s``."""
    low, high = _show(forecast.low_seconds), _show(forecast.high_seconds)
    if low == high:
        return low
    if forecast.high_seconds < LONG_SECONDS:
        return f"{low.removesuffix(' s')} to {high}"
    return f"{low} to {high}"


def show_forecast_of_run(forecast: EndForecast) -> str:
    """A forecast such as ``12 s (9 to 17 s in 9 of 10 cases)``."""
    middle, around = _show(forecast.seconds), show_range(forecast)
    return middle if middle == around else f"{middle} ({around} in 9 of 10 cases)"


def show_left(left: EndForecast) -> str:
    """What is left, such as ``about 8 s left (6 to 11 s)``."""
    middle, around = _show(left.seconds), show_range(left)
    beside = "" if middle == around else f" ({around})"
    return f"about {middle} left{beside}"


def forecast_as_json(forecast: EndForecast | None) -> dict[str, Any] | None:
    if forecast is None:
        return None
    return {
        "seconds": forecast.seconds,
        "low_seconds": forecast.low_seconds,
        "high_seconds": forecast.high_seconds,
    }
