"""What ended runs have left on a host, in the order in which it goes when room is needed.

First what tasks passed to each other, of the run that ended first; then uploads that no run here
has linked. Results stay until their run is cleaned, also those that another host handed over. What
goes may have to be made again by a later run that wants the same, or uploaded again.
"""

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from dataward.cluster.run_here import RunDirectoryHere
from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex

UPLOADS = "uploads"
NEW_SECONDS = 600.0


def leftovers(depot: Path, index: DigestIndex, running: Collection[str]) -> Iterator[Place]:
    """The files that may go, those that go first first."""
    directories = [RunDirectoryHere(depot, path.name) for path in (depot / "runs").glob("*")]
    over = [one for one in directories if one.path.name not in running]
    for directory in sorted(over, key=_age):
        kept = directory.kept()
        for place in index.places_below(str(directory.files)):
            if place.digest not in kept:
                yield place
    stay = {digest for one in directories for digest in one.parts() | one.kept()}
    for place in index.places_below(str(depot / UPLOADS)):
        if place.digest not in stay and _is_unused(place):
            yield place


def _age(directory: RunDirectoryHere) -> float:
    try:
        return directory.record.stat().st_mtime
    except OSError:
        return 0.0


def _is_unused(place: Place) -> bool:
    """Whether no run has linked an upload; one that is new may be for a run that is to come."""
    try:
        status = os.stat(place.path)
    except OSError:
        return False
    return status.st_nlink == 1 and time.time() - status.st_mtime > NEW_SECONDS
