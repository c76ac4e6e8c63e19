"""The options ``--deadline`` and ``--best-effort``, which several commands share."""

from typing import TYPE_CHECKING, Annotated

from dataward.cli.parameters import Option

if TYPE_CHECKING:
    from dataward.model.deadline import WantedDeadline

DeadlineText = Annotated[
    str | None,
    Option("--deadline", help="By when it must end: 2h, 1h30m, 17:30 or 2026-11-18T17:30."),
]
BestEffort = Annotated[
    bool,
    Option("--best-effort", help="Run even if the deadline cannot be promised."),
]


def deadline_given(deadline: str | None, best_effort: bool) -> "WantedDeadline | None":
    """The deadline of a command line, from now on; None if none was given.

    Raises UsageError.
    """
    if deadline is None and not best_effort:
        return None
    from datetime import datetime

    from dataward.cli.parameters import UsageError
    from dataward.errors import SettingError
    from dataward.model.deadline import wanted_deadline

    try:
        return wanted_deadline(deadline, best_effort, datetime.now().astimezone())
    except SettingError as error:
        raise UsageError(str(error)) from None
