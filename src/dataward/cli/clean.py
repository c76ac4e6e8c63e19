"""``dataward clean``: frees disk space by removing what runs have left behind."""

from functools import partial
from pathlib import Path
from typing import Annotated

from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import ContactOption, ElsewhereOption
from dataward.cli.parameters import Argument, Option


def clean_command(
    runs: Annotated[
        list[str] | None,
        Argument(help="Run directories, or old runs as montage.run/1; default: all here."),
    ] = None,
    all_: Annotated[
        bool, Option("--all", help="Remove whole run directories, outputs included.")
    ] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask, with --all.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be removed.")] = False,
    access: ElsewhereOption = None,
    contacts: ContactOption = None,
) -> None:
    """Remove the records of old runs, what interrupted tasks left, and unused files.

    The latest run of each directory stays, and so do outputs and all files that the next run can
    use; `--all` removes them too. Directories in use are left alone. With `--access`, runs of a
    cluster are forgotten, with their results and all other files that its nodes have of them.

    Examples:

    - `dataward clean --dry-run`
    - `dataward clean montage.run`
    - `dataward clean montage.run --all --yes`
    - `dataward clean montage-9e1f --access lab/submit.access`
    """
    if access is not None:
        _clean_in_cluster(access, contacts, runs or [], all_=all_, dry_run=dry_run)
        return
    from dataward.cli.cleaning import all_here, ask, cleaned_bytes, named_run
    from dataward.cli.output import stderr_console, stdout_console
    from dataward.cli.recorded import looking_into
    from dataward.cli.visiting import on_this_machine
    from dataward.model.quantities import show_bytes

    on_this_machine(contacts)
    with looking_into("."):
        found = [named_run(name, whole=all_) for name in runs] if runs else all_here()
    if not found:
        stderr_console().print("there is no run directory here", soft_wrap=True)
        return
    if all_ and not dry_run and not yes:
        ask(found)
    results = [
        cleaned_bytes(directory, number, whole=all_, dry=dry_run) for directory, number in found
    ]
    freed = sum(result or 0 for result in results)
    sentence = f"{show_bytes(freed)} would be freed" if dry_run else f"{show_bytes(freed)} freed"
    stdout_console().print(sentence, soft_wrap=True)
    if runs and None in results:
        raise SystemExit(ExitCode.FAILED)


def _clean_in_cluster(
    access: Path, contacts: list[str] | None, runs: list[str], *, all_: bool, dry_run: bool
) -> None:
    from dataward.cli.complaints import visible
    from dataward.cli.output import stdout_console
    from dataward.cli.visiting import visit
    from dataward.cluster.visitor import ClusterError, Visitor
    from dataward.errors import SettingError

    if not runs:
        raise SettingError("name the runs to clean; 'dataward status' lists those of a cluster")
    if all_ or dry_run:
        raise SettingError("--all and --dry-run are for run directories, not for a cluster's runs")

    async def clean(visitor: Visitor, run: str) -> None:
        try:
            await visitor.run(run)
            said = "removed"
        except ClusterError:  # also if an earlier clean was broken off: files may be left
            said = "no run is called that; what nodes still had of it is removed"
        await visitor.clean(run)
        stdout_console().print(f"{visible(run)}: {said}", soft_wrap=True)

    for name in runs:
        visit(access, contacts, partial(clean, run=name), run=name, role="submit")
