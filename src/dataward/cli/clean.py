"""``dataward clean``: frees disk space by removing what runs have left behind."""

from typing import Annotated

from dataward.cli.exit_codes import ExitCode
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
) -> None:
    """Remove the records of old runs, what interrupted tasks left, and unused files.

    The latest run of each directory stays, and so do outputs and all files that the next run can
    use; `--all` removes them too. Directories in use are left alone.

    Examples:

    - `dataward clean --dry-run`
    - `dataward clean montage.run`
    - `dataward clean montage.run --all --yes`
    """
    from dataward.cli.cleaning import all_here, ask, cleaned_bytes, named_run
    from dataward.cli.output import stderr_console, stdout_console
    from dataward.cli.recorded import looking_into
    from dataward.model.quantities import show_bytes

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
