"""``dataward drain``: lets a node of a cluster finish its work and leave."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option


def drain_command(
    node: Annotated[str, Argument(help="The node's name, as 'dataward nodes' lists it.")],
    access: Annotated[
        Path | None, Option(help="The access file; default: as DATAWARD_ACCESS says.")
    ] = None,
    contacts: Annotated[
        list[str] | None, Option("--contact", help="Ask the node at HOST:PORT.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print the node as JSON.")] = False,
) -> None:
    """Let a node finish the tasks that run there, hand over the files that others need, and end.

    It returns at once; `dataward nodes` lists the node until it has left.

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

    visit(access, contacts, drain)
    if json:
        print_json({"node": node, "state": "draining"})
    else:
        stdout_console().print(f"{visible(node)} is draining", soft_wrap=True)
