"""``dataward fetch``: brings the results of a cluster's run to this machine."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import AccessOption, ClusterRunArgument, ContactOption, JsonOption
from dataward.cli.parameters import Argument, Option


def fetch_command(
    run: ClusterRunArgument,
    files: Annotated[
        list[str] | None,
        Argument(help="Only these files, also such as tasks have read; default: all results."),
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Where to put them; default: RUN, here.")
    ] = None,
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Bring the results of a run here: the files that its tasks wrote and none of them read.

    Each is checked by its hash. What is here already, with that content, is not brought again.

    Examples:

    - `dataward fetch montage-9e1f -o results --access lab/read.access`
    - `dataward fetch montage-9e1f mosaic.fits`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.exit_codes import ExitCode
    from dataward.cli.output import (
        busy,
        counted,
        encodable,
        print_json,
        stderr_console,
        stdout_console,
    )
    from dataward.cli.visiting import visit
    from dataward.cluster.results import Fetched, fetched
    from dataward.cluster.visitor import Visitor
    from dataward.model.quantities import show_bytes

    place = out or Path(run)

    with busy(f"fetching the results of {run}") as say:

        def on_done(done: int, total: int) -> None:
            say(f"fetching the results of {run}: {done:,} of {total:,}")

        async def bring(visitor: Visitor) -> Fetched:
            return await fetched(visitor, run, files or (), place, on_done)

        got = visit(access, contacts, bring, run=run)
    if json:
        missing = list(got.missing)
        print_json(
            {"out": encodable(place), "files": got.files, "bytes": got.bytes, "missing": missing}
        )
    else:
        what = f"{counted(got.files, 'file')} ({show_bytes(got.bytes)})"
        stdout_console().print(f"{what} in {visible(place)}", soft_wrap=True)
    if got.missing:
        names = ", ".join(visible(file) for file in got.missing[:5])
        more = f" and {len(got.missing) - 5:,} more" if len(got.missing) > 5 else ""
        stderr_console().print(f"not made: {names}{more}", soft_wrap=True)
        raise SystemExit(ExitCode.PARTIAL)
