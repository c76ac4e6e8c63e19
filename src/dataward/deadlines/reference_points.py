"""Moments that summaries of holes refer to, with equal ones in summaries made at near times.

PeerComp's Table I: each offset is added to the time and rounded up to a multiple of its step.
"""

from math import ceil

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

OFFSETS_SECONDS = (
    5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR, DAY,
)  # fmt: skip
STEPS_SECONDS = (
    5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 8 * HOUR, DAY,
)  # fmt: skip
POINTS = len(OFFSETS_SECONDS)
CHANGE_SECONDS = STEPS_SECONDS[0]  # points change only at multiples of this

ReferencePoints = tuple[float, ...]


def reference_points(created: float) -> ReferencePoints:
    """The points of summaries created at this time, in order; two of them may be equal.

    At 0:12 the points after 10 and after 15 minutes are both 0:30: no hole ends between them.
    """
    return tuple(
        ceil((created + offset) / step) * step
        for offset, step in zip(OFFSETS_SECONDS, STEPS_SECONDS, strict=True)
    )
