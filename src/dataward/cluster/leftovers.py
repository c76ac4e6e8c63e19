"""What ended runs have left on a host, in the order in which it goes when room is needed.

First what tasks passed to each other, of the run that ended first; then uploads that no run here
has linked. Results stay until their run is cleaned, also those that another host handed over. What
goes may have to be made again by a later run that wants the same, or uploaded again.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from dataward.cluster.run_here import RunDirectoryHere
from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex

UPLOADS = "uploads"
NEW_SECONDS = 600.0


def leftovers(
    depot: Path,
    index: DigestIndex,
    running: Collection[str],
    has_served: Callable[[str], bool] = lambda digest: False,
) -> Iterator[Place]:
    """The files that may go, those that go first first.

    An upload that ``has_served`` a run may go when no run links it any more; another one may be for
    a run that is to come, and stays for a while.
    """
    directories = [RunDirectoryHere(depot, path.name) for path in (depot / "runs").glob("*")]
    over = [one for one in directories if one.path.name not in running]
    for directory in sorted(over, key=_age):
        kept = directory.kept()
        for place in index.places_below(str(directory.files)):
            if place.digest not in kept:
                yield place
    stay = {digest for one in directories for digest in one.parts() | one.kept()}
    for place in index.places_below(str(depot / UPLOADS)):
        if place.digest not in stay:
            new_seconds = 0.0 if has_served(place.digest) else NEW_SECONDS
            if _is_unused(place, new_seconds):
                yield place


def _age(directory: RunDirectoryHere) -> float:
    try:
        return directory.record.stat().st_mtime
    except OSError:
        return 0.0


def _is_unused(place: Place, new_seconds: float) -> bool:
    """Whether no run links an upload that is older than this."""
    try:
        status = os.stat(place.path)
    except OSError:
        return False
    return status.st_nlink == 1 and time.time() - status.st_mtime >= new_seconds
