"""Asks a cluster on behalf of a command: finds the access file, and a node that is up."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dataward.cli.options import check_address
from dataward.errors import SettingError

if TYPE_CHECKING:
    from dataward.cluster.visitor import Visitor

T = TypeVar("T")
VARIABLE = "DATAWARD_ACCESS"


def access_path(given: Path | None) -> Path:
    """The access file to use: the one given, or the one that the environment names."""
    named = given or Path(os.environ.get(VARIABLE, ""))
    if not str(named) or str(named) == ".":
        raise SettingError(
            f"no access file; give --access FILE, or name one in {VARIABLE} "
            "('dataward cluster up DIR' makes a cluster with DIR/submit.access)"
        )
    return named


def on_this_machine(contacts: Sequence[str] | None) -> None:
    """Check that nothing is asked of a node, as no access file is given. Raises SettingError."""
    if contacts:
        raise SettingError("--contact is for clusters; give --access FILE too")


def visit(
    access: Path | None,
    contacts: Sequence[str] | None,
    work: "Callable[[Visitor], Awaitable[T]]",
    *,
    run: str | None = None,
    role: str = "read",
) -> T:
    """What the work comes to, which may ask the cluster. Raises ClusterError, SettingError.

    ``run`` is the name of the run that it is about, and ``role`` what the access must be for.
    """
    try:
        from dataward.cluster.access import contacts_for, read_access
        from dataward.cluster.visitor import ClusterError, Visitor
        from dataward.model.members import RUN_NAME
    except ImportError as error:
        raise needs_extra(error) from error
    for contact in contacts or ():
        check_address("--contact", contact)
    path = access_path(access)
    known = read_access(path)
    if known.role == "node":
        raise SettingError(f"{path} is a node's; use submit.access or read.access")
    if role == "submit" and known.role != role:
        raise SettingError(f"with {path} one may only look; this takes submit.access")
    if run is not None and not re.fullmatch(RUN_NAME, run):
        raise ClusterError(f"no run is called {run!r}")

    async def visited() -> T:
        async with Visitor(known, [*(contacts or ()), *contacts_for(path, known)]) as visitor:
            return await work(visitor)

    return asyncio.run(visited())


def needs_extra(error: ImportError) -> SettingError:
    """What to tell somebody who has not installed what clusters need."""
    return SettingError(
        f"clusters need more than is installed here ({error.name} is missing): "
        "pip install 'dataward[cluster]'"
    )
