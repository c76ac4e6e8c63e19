"""``dataward deadlines``: simulates many workflows with deadlines on up to a million nodes."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption, SeedOption
from dataward.cli.parameters import Argument, Option


def deadlines_command(
    files: Annotated[
        list[Path] | None,
        Argument(help="Workflows that arrive again and again; default: those of the paper."),
    ] = None,
    nodes: Annotated[int, Option(help="How many nodes.", min=1, max=2_000_000)] = 1000,
    minutes: Annotated[
        float, Option(help="How long workflows arrive.", min=0.1, max=100_000)
    ] = 60.0,
    after: Annotated[
        float,
        Option(help="Minutes to go on after that, for workflows to end.", min=0.0, max=100_000),
    ] = 0.0,
    priority: Annotated[
        float,
        Option(
            help="Time that a workflow's owner would need alone, over time until its deadline.",
            min=0.01,
            max=1000,
        ),
    ] = 1.1,
    load: Annotated[
        float, Option(help="Work that arrives, over what all nodes can do.", min=0.001, max=1000)
    ] = 1.0,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Simulate workflows that are promised in time, or refused, after PeerComp.

    Nodes of unequal speed are the leaves of a balanced tree, with links of 1 Mbps and 50 ms. A
    workflow that arrives at a node is divided into sequences; each looks for a hole in the schedule
    of some node, is reserved there and then confirmed. A workflow whose sequences all find one is
    accepted, and runs; others are refused. Files are taken to be small. Tasks use one core.

    Examples:

    - `dataward deadlines --nodes 1000 --minutes 60 --after 60`
    - `dataward deadlines fork.json laplace.json --nodes 10000 --priority 1.4`
    - `dataward deadlines --nodes 1000000 --minutes 10`
    """
    from dataward.cli.deadline_report import as_json, outlines_from, print_report
    from dataward.cli.output import busy, print_json
    from dataward.sim.deadline_world import DeadlineSettings, DeadlineWorld

    named = outlines_from(files or [])
    settings = DeadlineSettings(
        nodes, seed=seed, load=load, priority=priority, horizon_seconds=60.0 * minutes
    )
    with busy(f"{nodes:,} nodes for {minutes + after:g} simulated minutes"):
        world = DeadlineWorld(settings, list(named.values()))
        gauges = world.run(60.0 * (minutes + after))
    if json:
        print_json(as_json(named, settings, gauges))
    else:
        print_report(named, settings, gauges)
