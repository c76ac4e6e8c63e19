"""``dataward strategies``: lists the ways to schedule."""

from dataward.cli.options import JsonOption


def strategies_command(
    json: JsonOption = False,
) -> None:
    """List every strategy that `run` and `simulate` know, with one line and the paper.

    Each is a row of parts: a plan, a rule for homes, an order, and a mover. The settings in the
    JSON can be changed with `--set NAME=VALUE`.

    Examples:

    - `dataward strategies`
    - `dataward simulate montage.json --strategy all`
    """
    from dataward.cli.output import print_json
    from dataward.cli.tables import print_table
    from dataward.strategies.choosing import parts_of, settings_of
    from dataward.strategies.registry import STRATEGIES

    if json:
        print_json(
            [
                {
                    "name": each.name,
                    "summary": each.summary,
                    "paper": each.paper,
                    "parts": parts_of(each),
                    "settings": settings_of(each),
                }
                for each in STRATEGIES.values()
            ]
        )
        return
    rows = [(each.name, each.summary, each.paper or "–") for each in STRATEGIES.values()]
    print_table(("strategy", "what it does", "paper"), rows, spare=("paper",), left=True)
