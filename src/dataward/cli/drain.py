"""``dataward drain``: lets a node of a cluster finish its work and leave."""

from typing import Annotated

from dataward.cli.options import AccessOption, ContactOption, JsonOption
from dataward.cli.parameters import Argument


def drain_command(
    node: Annotated[str, Argument(help="The node's name, as 'dataward nodes' lists it.")],
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Let a node finish the tasks that run there, hand over the files that others need, and end.

    It returns at once; `dataward nodes` lists the node until it has left. Results that only it has
    are handed over as well, those of ended runs too.

    Examples:

    - `dataward drain n3 --access lab/submit.access`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import print_json, stdout_console
    from dataward.cli.visiting import visit
    from dataward.cluster.visitor import Visitor
    from dataward.model.ids import NodeId

    async def drain(visitor: Visitor) -> None:
        await visitor.cluster()
        await visitor.drain(NodeId(node))

    visit(access, contacts, drain, role="submit")
    if json:
        print_json({"node": node, "state": "draining"})
    else:
        stdout_console().print(f"{visible(node)} is draining", soft_wrap=True)
