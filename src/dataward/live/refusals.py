"""One line in the log for who was refused and why, however often it tries again."""

import logging
from time import monotonic

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0  # between two lines on the same peer and reason
KNOWN_MAX = 1000  # peers and reasons
SHOWN_CHARACTERS = 200  # of a detail, which may have words of the peer in it


class Refusals:
    """Tells of each address and reason at most once a minute, with how many there were."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many since

    def note(self, address: object, why: str, detail: object = "") -> None:
        """Neither contents nor credentials belong in a detail; reasons are ours, and few."""
        key, now = (str(address), why), monotonic()
        told_at, since = self._told.get(key, (-AGAIN_SECONDS, 0))
        if now < told_at + AGAIN_SECONDS:
            self._told[key] = (told_at, since + 1)
            return
        if len(self._told) >= KNOWN_MAX:
            self._told.clear()
        self._told[key] = (now, 0)
        more = f" ({since} times more in the minute before)" if since else ""
        # Escaped as Python would, for a peer that makes up lines of a log by line breaks.
        shown = f": {detail}"[:SHOWN_CHARACTERS].encode("unicode_escape").decode() if detail else ""
        log.warning("%s was refused: %s%s%s", *key, shown, more)
