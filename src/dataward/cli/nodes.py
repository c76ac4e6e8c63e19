"""``dataward nodes``: lists the nodes of a cluster."""

from dataward.cli.options import AccessOption, ContactOption, JsonOption


def nodes_command(
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """List the nodes of a cluster that are up.

    Examples:

    - `dataward nodes --access lab/read.access`
    """
    import msgspec

    from dataward.cli.output import print_json
    from dataward.cli.tables import print_table
    from dataward.cli.visiting import visit
    from dataward.model.quantities import show_bytes

    facts = visit(access, contacts, lambda visitor: visitor.cluster())
    if json:
        print_json([msgspec.structs.asdict(member) for member in facts.members])
        return
    rows = [
        (
            member.node,
            member.address,
            str(member.cores),
            show_bytes(member.memory_bytes),
            member.site or "-",
            "draining" if member.draining else "up",
        )
        for member in facts.members
    ]
    print_table(("node", "address", "slots", "memory", "site", "state"), rows, left=True)
