"""Says which of several strategies was best, and by how much."""

from collections.abc import Mapping

NEAR = 0.005  # makespans that differ by less are called equal
NAMED = 3


def best_sentence(seconds: Mapping[str, float]) -> str:
    """A sentence about makespans by strategy; strategies that are equally good are all counted."""
    ranked = sorted(seconds.items(), key=lambda item: item[1])
    least = ranked[0][1]
    best = [name for name, one in ranked if one <= least * (1 + NEAR)]
    if len(best) == len(ranked):
        return f"All {len(ranked)} are equally good here, within {NEAR:.1%}."
    after, next_seconds = ranked[len(best)]
    sooner = f"{1 - least / next_seconds:.1%} sooner than {after}, the next"
    if len(best) == 1:
        return f"{best[0]} is best here: {sooner}."
    named = best if len(best) <= NAMED else [*best[: NAMED - 1], f"{len(best) - NAMED + 1} more"]
    names = f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{names} are best here, within {NEAR:.1%} of each other: {sooner}."
