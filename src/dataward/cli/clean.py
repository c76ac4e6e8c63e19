"""``dataward clean``: frees disk space by removing what runs have left behind."""

from functools import partial
from pathlib import Path
from typing import Annotated

from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import ContactOption, ElsewhereOption, JsonOption
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
    json: JsonOption = False,
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
        _clean_in_cluster(access, contacts, runs or [], all_=all_, dry_run=dry_run, json=json)
        return
    from dataward.cli.cleaning import all_here, ask, cleaned, named_run
    from dataward.cli.output import encodable, print_json, stderr_console, stdout_console
    from dataward.cli.recorded import looking_into
    from dataward.cli.visiting import on_this_machine
    from dataward.model.quantities import show_bytes

    on_this_machine(contacts)
    with looking_into("."):
        found = [named_run(name, whole=all_) for name in runs] if runs else all_here()
    if not found and not json:
        stderr_console().print("there is no run directory here", soft_wrap=True)
        return
    if all_ and not dry_run and not yes:
        ask(found)
    results = [
        cleaned(directory, number, whole=all_, dry=dry_run, quiet=json)
        for directory, number in found
    ]
    freed = sum(result.freed_bytes for result in results if result)
    if json:
        told = [
            {
                "path": encodable(directory.path / number if number else directory.path),
                "in_use": result is None,
                "removed": result.removed if result else {},
                "freed_bytes": result.freed_bytes if result else 0,
            }
            for (directory, number), result in zip(found, results, strict=True)
        ]
        print_json({"dry_run": dry_run, "freed_bytes": freed, "directories": told})
    else:
        done = "would be freed" if dry_run else "freed"
        stdout_console().print(f"{show_bytes(freed)} {done}", soft_wrap=True)
    if runs and None in results:
        raise SystemExit(ExitCode.FAILED)


def _clean_in_cluster(
    access: Path,
    contacts: list[str] | None,
    runs: list[str],
    *,
    all_: bool,
    dry_run: bool,
    json: bool,
) -> None:
    from dataward.cli.complaints import visible
    from dataward.cli.output import print_json, stdout_console
    from dataward.cli.visiting import visit
    from dataward.cluster.visitor import ClusterError, Visitor
    from dataward.errors import SettingError

    if not runs:
        raise SettingError("name the runs to clean; 'dataward status' lists those of a cluster")
    if all_ or dry_run:
        raise SettingError("--all and --dry-run are for run directories, not for a cluster's runs")

    async def clean(visitor: Visitor, run: str) -> bool:
        try:
            await visitor.run(run)
            is_known = True
        except ClusterError:  # also if an earlier clean was broken off: files may be left
            is_known = False
        await visitor.clean(run)
        return is_known

    told = []
    for name in runs:
        is_known = visit(access, contacts, partial(clean, run=name), run=name, role="submit")
        told.append({"run": name, "was_known": is_known})
        if not json:
            unknown = "no run is called that; what nodes still had of it is removed"
            said = "removed" if is_known else unknown
            stdout_console().print(f"{visible(name)}: {said}", soft_wrap=True)
    if json:
        print_json({"runs": told})
