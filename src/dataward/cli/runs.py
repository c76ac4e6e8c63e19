"""``dataward runs``: lists the runs recorded in a directory and their outcomes."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption
from dataward.cli.parameters import Argument


def runs_command(
    directory: Annotated[
        Path, Argument(help="A run directory, or a directory that holds some.")
    ] = Path(),
    json: JsonOption = False,
) -> None:
    """List past runs and the one under way: when, how far they came, how long they took.

    The state `killed` means that the run's process is gone; `dataward run --resume` continues it.

    Examples:

    - `dataward runs`
    - `dataward runs montage.run --json`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import print_json, stderr_console
    from dataward.cli.recorded import facts_of, looking_into
    from dataward.cli.run_list import print_rows, row_as_json, row_of
    from dataward.errors import FormatError
    from dataward.runs.run_directory import runs_below

    with looking_into(str(directory)):
        if not directory.is_dir():
            raise FormatError(str(directory), "there is no such directory")
        rows = [row_of(run, facts) for run in runs_below(directory) if (facts := facts_of(run))]
    if json:
        print_json([row_as_json(row) for row in rows])
    elif rows:
        print_rows(rows)
    else:
        said = f"no runs in {visible(directory)}; 'dataward run FILE' makes one"
        stderr_console().print(said, soft_wrap=True)
