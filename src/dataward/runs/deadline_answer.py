"""The answer to a deadline, before a run starts: accepted or refused, in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, inf
from typing import Any

from dataward.deadlines.admission import AcceptedDeadline, RefusedDeadline
from dataward.errors import DeadlineRefusedError
from dataward.model.deadline import WantedDeadline, moment_after, rounded_up, show_moment
from dataward.model.quantities import show_seconds

TYPES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class DeadlineAnswer:
    """What was asked for, and what is promised. Times count from when it was asked.

    ``declared`` of ``tasks`` run times are only what the workflow's file says.
    """

    wanted: WantedDeadline
    found: AcceptedDeadline | RefusedDeadline
    tasks: int = 0
    declared: int = 0

    @property
    def accepted(self) -> AcceptedDeadline | None:
        return self.found if isinstance(self.found, AcceptedDeadline) else None

    @property
    def sentence(self) -> str:
        if isinstance(self.found, AcceptedDeadline):
            return self._accepted(self.found)
        why = f"refused: {self._refused(self.found)}"
        return (
            f"{why}; it runs as well as it can, and nothing is promised" * (self.wanted.best_effort)
            or why
        )

    def error(self) -> DeadlineRefusedError:
        """The refusal, to be raised."""
        assert isinstance(self.found, RefusedDeadline)
        found = self.found
        return DeadlineRefusedError(
            self.sentence, found.earliest, found.path_seconds, found.unknown
        )

    def as_json(self) -> dict[str, Any]:
        asked, found = self.wanted.asked, self.found
        told: dict[str, Any] = {
            "deadline": self.wanted.at.isoformat(),
            "deadline_seconds": self.wanted.seconds,
            "accepted": self.accepted is not None,
            "best_effort": self.wanted.best_effort,
            "answer": self.sentence,
        }
        if isinstance(found, AcceptedDeadline):
            told |= {
                "finish": (asked + timedelta(seconds=found.finish)).isoformat(),
                "expected_seconds": found.expected,
                "sure": found.sure,
            }
        elif not found.unknown:
            is_found = found.earliest < inf
            earliest = moment_after(asked, found.earliest) if is_found else None
            told |= {
                "earliest": earliest.isoformat() if earliest else None,
                "earliest_seconds": found.earliest if is_found else None,
                "critical_path_seconds": found.path_seconds or None,
            }
        return told | {"unknown_types": list(getattr(found, "unknown", ()))}

    def _accepted(self, found: AcceptedDeadline) -> str:
        asked = self.wanted.asked
        by = show_moment(asked + timedelta(seconds=found.finish), asked)
        about = show_moment(asked + timedelta(seconds=ceil(found.expected)), asked)
        basis = ""
        if self.declared:
            which = "all" if self.declared == self.tasks else f"{self.declared:,} of {self.tasks:,}"
            basis = (
                f"; {which} run times are only the file's word, taken to be off by a factor of 2.7"
            )
        return (
            f"accepted: will end by {by} at the latest, {found.sure:.0%} sure "
            f"(should end about {about}{basis})"
        )

    def _refused(self, found: RefusedDeadline) -> str:
        if found.unknown:
            return (
                f"nothing is known of how long {_named(found.unknown)} takes, so that it cannot be "
                "promised; --best-effort runs it, and learns"
            )
        if found.earliest == inf:
            return (
                "no time was found by which it could be promised; --best-effort runs it, or ask "
                "again when there is less to do"
            )
        asked = self.wanted.asked
        moment = show_moment(moment_after(asked, found.earliest), asked)
        earliest = (
            f"the earliest that can be promised is {moment} "
            f"(in {show_seconds(rounded_up(found.earliest))})"
        )
        if found.path_seconds:
            path = show_seconds(found.path_seconds)
            short = "the deadline is shorter than the critical path"  # with all that is beside it
            return f"{short}, which should take {path}; {earliest}"
        return earliest


def _named(types: Sequence[str]) -> str:
    shown = " or ".join(repr(name) for name in types[:TYPES_SHOWN])
    return shown + (f" or {len(types) - TYPES_SHOWN} more types" * (len(types) > TYPES_SHOWN))
