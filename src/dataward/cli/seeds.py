"""``dataward seeds``: simulates many seeds with faults, and checks every invariant."""

import time
from typing import Annotated

from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import FaultsOption, JsonOption
from dataward.cli.parameters import Option
from dataward.cli.seed_workflows import Workflows

SHOWN = 10  # failing seeds printed; --json has them all


def seeds_command(
    count: Annotated[int, Option("--count", "-n", help="How many seeds.", min=1)] = 1000,
    first: Annotated[int, Option(help="The first seed.")] = 0,
    seed: Annotated[int | None, Option(help="Replay just this one.")] = None,
    faults: FaultsOption = "chaos",
    strategy: Annotated[
        str, Option(help="Strategies, with commas between them, or all: each tries every seed.")
    ] = "dataward",
    workflows: Annotated[
        Workflows,
        Option(help="Small applications, odd workflows drawn from the seed, or both in turn."),
    ] = Workflows.MIXED,
    exhaustive: Annotated[
        bool, Option("--exhaustive", help="Small worlds with every fault at every point.")
    ] = False,
    minutes: Annotated[
        float, Option(help="How long pairs of faults are tried, with --exhaustive.", min=0)
    ] = 3.0,
    world: Annotated[
        str | None, Option(help="Just this small world; or replay it, with the faults given.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run small workflows under seeded faults and check every invariant after every event.

    Each seed draws its own cluster, settings, estimates and faults; half of them know run times and
    sizes exactly, the others with an error or not at all. A seed that fails is printed with the
    command that replays it. Odd workflows are what real files contain: several writers of one file,
    readers that do not wait for a writer, order without files, sizes and run times of 0, giants.
    Unless only applications are asked for, a third of the workflows have run before, and from a
    quarter of them one task or three are removed while they run.

    *Healing* is what had to be put right on the way: runs repeated, tasks taken over or made
    again, leases lost, notices found undelivered, bytes moved again, seconds that work or news of
    it waited. Without faults there must be none, but for tasks begun again or twice because a
    disk was too small, or made again because what an earlier run wrote is gone. With faults, a seed
    that heals more than its faults explain fails, and so does one whose nodes keep anything after
    the last task.

    With --exhaustive no seed is drawn. A diamond, a fan and a few long tasks run on two and three
    nodes, with one fault at every point: each call to the store lost, each answer lost, each
    message lost or doubled, each node down after each step (for long, and briefly), each shard
    without its last writes after each call, each task removed at each call, each node leaving and
    one joining at each call. Then come pairs of these, evenly spread, for some minutes.

    Examples:

    - `dataward seeds -n 1000`
    - `dataward seeds --seed 7`
    - `dataward seeds -n 1000 --faults crashes`
    - `dataward seeds -n 100 --strategy all`
    - `dataward seeds -n 10000 --workflows odd`
    - `dataward seeds --exhaustive --strategy dataward --minutes 30`
    - `dataward seeds --exhaustive --world 'diamond,2,answer@17+crash n1@40'`
    """
    from rich.progress import track

    from dataward.cli.output import print_json, stderr_console, stdout_console
    from dataward.cli.seed_trials import healing_line, verdicts_of
    from dataward.sim.faults import parse_faults
    from dataward.sim.healing import Healing
    from dataward.strategies.registry import DEFAULT, strategies_named

    if exhaustive or world is not None:
        from dataward.cli.exhaustive import try_exhaustively

        try_exhaustively(strategy, world, minutes, json=json)
        return
    parse_faults(faults)
    names = [each.name for each in strategies_named(strategy)]
    seeds = [seed] if seed is not None else list(range(first, first + count))
    chosen = [(each, name) for each in seeds for name in names]
    began = time.perf_counter()
    verdicts = []
    watching = stderr_console()
    for verdict in track(
        verdicts_of(chosen, faults, workflows),
        "seeds",
        total=len(chosen),
        console=watching,
        disable=not watching.is_terminal,
    ):
        verdicts.append(verdict)
        if verdict.problem and sum(1 for v in verdicts if v.problem) <= SHOWN:
            problem = f"seed {verdict.seed} ({verdict.workflow}): {verdict.problem}"
            replay = f"  replay: dataward seeds --seed {verdict.seed} --faults {faults}"
            replay += f" --strategy {verdict.strategy}" if verdict.strategy != DEFAULT else ""
            replay += f" --workflows {workflows.value}" if workflows is not Workflows.MIXED else ""
            watching.print(f"{problem}\n{replay}", soft_wrap=True)
    bad = [verdict for verdict in verdicts if verdict.problem]
    healing = sum((verdict.healing for verdict in verdicts), Healing())
    if json:
        document = {"faults": faults, "strategies": names, "seeds": len(chosen)}
        document["failed"] = len(bad)
        print_json({**document, "healing": healing, "verdicts": bad})
    else:
        checks, hits = sum(v.checks for v in verdicts), sum(v.faults for v in verdicts)
        stdout_console().print(
            f"{len(chosen) - len(bad):,} of {len(chosen):,} seeds hold under {faults}: "
            f"{hits:,} faults, {checks:,} checks, {time.perf_counter() - began:.0f} s",
            soft_wrap=True,
        )
        stdout_console().print(f"healing: {healing_line(healing)}", soft_wrap=True)
    if bad:
        raise SystemExit(ExitCode.FAILED)
