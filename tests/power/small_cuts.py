"""A few lines of Python with the power cut on the way."""

import sys
from collections.abc import Iterator
from pathlib import Path

from power.disk import Disk
from power.effects import Recording, SyncedAll
from power.layout import lay_out, listing_of
from power.recorder import Plan, record
from power.survival import EXTREMES, NOTHING, drawn, what_is_left

PLACE = Path("place")
PARTS = 60  # drawn for each cut; those that leave the same count once


def recorded_lines(lines: str, killed_at: str = "", then: str = "") -> Recording:
    """What these lines do, run in `PLACE`, and then others in a process of their own."""
    PLACE.mkdir(exist_ok=True)
    commands = [((sys.executable, "-c", lines), killed_at)]
    commands += [((sys.executable, "-c", then), "")] if then else []
    recording = record(Plan(str(PLACE.absolute()), (), tuple(commands)), Path.cwd())
    assert recording.codes[-1] == 0
    return recording


def cut_at_the_end(recording: Recording) -> None:
    """Leave in `PLACE` what is safe when all is done."""
    disk = Disk()
    for effect in recording.effects:
        disk.apply(effect)
    lay_out(what_is_left(disk, NOTHING), PLACE)


def cut_everywhere(recording: Recording) -> Iterator[str]:
    """Leave in `PLACE` what a cut leaves, at each moment of the last lines; say which cut it is."""
    disk, seen = Disk(), set[int]()
    begun = recording.ends[-2] if len(recording.ends) > 1 else recording.effects.index(SyncedAll())
    for number, effect in enumerate(recording.effects):
        disk.apply(effect)
        for survival in (*EXTREMES, *map(drawn, range(PARTS))) if number >= begun else ():
            tree = what_is_left(disk, survival)
            key = hash(tuple(listing_of(tree).items()))
            if key not in seen:
                seen.add(key)
                lay_out(tree, PLACE)
                yield f"after {effect}; {survival}"
