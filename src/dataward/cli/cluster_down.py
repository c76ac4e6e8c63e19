"""``dataward cluster down``: ends what ``cluster up`` has started."""

from dataward.cli.options import ClusterPath, JsonOption


def cluster_down_command(
    directory: ClusterPath,
    json: JsonOption = False,
) -> None:
    """End the nodes and the store of this machine's cluster; its files stay.

    Runs that go on are gone on with by the next `cluster up`.

    Examples:

    - `dataward cluster down lab`
    """
    from dataward.cli.output import busy, counted, print_json, stdout_console
    from dataward.cli.visiting import needs_extra

    try:
        from dataward.cluster.founding import ClusterDirectory
        from dataward.cluster.laptop import Laptop
    except ImportError as error:
        raise needs_extra(error) from error
    laptop = Laptop(ClusterDirectory(directory).existing())
    with busy("ending nodes and store"):
        nodes = laptop.stop_nodes()
        was_up = laptop.stop_store()
    if json:
        print_json({"nodes": nodes, "store": was_up})
    else:
        store = "the store" if was_up else "no store"
        stdout_console().print(f"{counted(len(nodes), 'node')} and {store} ended")
