"""Which files a host has, by content: those of all its runs, and what was uploaded to it.

Another host asks for a file by its digest and nothing else, and a run that needs a file which
another run here has links it. A file counts only while this process knows that its content is what
its name says: it was written or received by this process, or read again at the start.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dataward.live.depot_disk import Place, files_in_depot
from dataward.live.file_digest import file_digest


class DigestIndex:
    """The places of files by digest; equal files may have several.

    These are names of one file most of the time, so ``used_bytes`` counts each content once.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, Place]] = {}  # digest -> path -> place
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, place: Place) -> None:
        places = self._places.setdefault(place.digest, {})
        if not places:
            self.used_bytes += place.size_bytes
        places[place.path] = place

    def discard(self, place: Place) -> None:
        places = self._places.get(place.digest, {})
        if places.pop(place.path, None) is not None and not places:
            self.used_bytes -= place.size_bytes
            del self._places[place.digest]

    def find(self, digest: str) -> Place | None:
        """A file with this content; None if there is none any more.

        A file that has gone from the disk, or that somebody has written to since, counts no longer.
        """
        for place in list(self._places.get(digest, {}).values()):
            if _is_as_it_was(place):
                return place
            self.discard(place)
        return None

    def places_below(self, directory: str) -> list[Place]:
        """The files that are directly in this directory. It looks at all files."""
        places = [place for places in self._places.values() for place in places.values()]
        return [place for place in places if os.path.dirname(place.path) == directory]

    def have(self, digests: Iterable[str]) -> list[str]:
        """Those of the digests of which there is a file."""
        return [digest for digest in digests if self.find(digest) is not None]


def _is_as_it_was(place: Place) -> bool:
    try:
        status = os.stat(place.path)
    except OSError:
        return False
    is_same_time = not place.modified_ns or status.st_mtime_ns == place.modified_ns
    return is_same_time and status.st_size == place.size_bytes


def believed(depots: Iterable[Path], threads: int = 4) -> list[Place]:
    """The files of these directories whose content is what their names say; all are read.

    A file whose content differs is removed: a power cut may have left it so.
    """
    places = [place for depot in depots for place in files_in_depot(depot)]
    with ThreadPoolExecutor(threads, "dataward-check") as pool:
        good = list(pool.map(_is_good, places))
    for place, is_good in zip(places, good, strict=True):
        if not is_good:
            os.unlink(place.path)
    return [place for place, is_good in zip(places, good, strict=True) if is_good]


def _is_good(place: Place) -> bool:
    try:
        with open(place.path, "rb", buffering=0) as file:
            return file_digest(file, place.size_bytes) == place.digest
    except OSError:
        return False
