"""``dataward reproduce``: repeats the papers' experiments in the simulator."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption
from dataward.cli.parameters import Argument, Option


def reproduce_command(
    experiments: Annotated[
        list[str] | None,
        Argument(help="Names with commas or spaces between, a paper's name, or all."),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Small workflows: a few minutes for all of them.")
    ] = False,
    out: Annotated[Path, Option("--out", "-o", help="The directory for all results.")] = Path(
        "reproduction"
    ),
    json: JsonOption = False,
) -> None:
    """Repeat the papers' experiments, and hold their claims against what comes out.

    Without an experiment, lists them. Each is simulated as its paper set it up, on all cores;
    report.md in the directory says what the paper claims, what came out here, and whether the claim
    holds, and shows the figures, whose numbers are beside it as CSV. An interrupted run goes on
    when the same command is given again: what has been measured is kept in the directory.

    Examples:

    - `dataward reproduce`
    - `dataward reproduce adage-3,adage-5 -o figures`
    - `dataward reproduce worker --quick`
    - `dataward reproduce all`
    """
    from dataward.cli.reproducing import list_experiments, reproduce

    if not experiments:
        list_experiments(json=json)
    else:
        reproduce(experiments, out, quick=quick, json=json)
