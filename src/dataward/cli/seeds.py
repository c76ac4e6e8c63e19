"""``dataward seeds``: simulates many seeds with faults, and checks every invariant."""

import time
from typing import Annotated

from dataward.cli.exit_codes import ExitCode
from dataward.cli.parameters import Option
from dataward.cli.seed_workflows import Workflows

SHOWN = 10  # failing seeds printed; --json has them all


def seeds_command(
    count: Annotated[int, Option("--count", "-n", help="How many seeds.", min=1)] = 1000,
    first: Annotated[int, Option(help="The first seed.")] = 0,
    seed: Annotated[int | None, Option(help="Replay just this one.")] = None,
    faults: Annotated[str, Option(help="What goes wrong, as for simulate.")] = "chaos",
    workflows: Annotated[
        Workflows,
        Option(help="Small applications, odd workflows drawn from the seed, or both in turn."),
    ] = Workflows.MIXED,
    json: Annotated[bool, Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Run small workflows under seeded faults and check every invariant after every event.

    Each seed draws its own cluster, settings and faults. A seed that fails is printed with the
    command that replays it. Odd workflows are what real files contain: several writers of one file,
    readers that do not wait for a writer, order without files, sizes and run times of 0, giants.

    *Healing* is what had to be put right on the way: runs repeated, tasks taken over or made
    again, leases lost, notices found undelivered, bytes moved again, seconds that work or news of
    it waited. Without faults there must be none, but for tasks begun again or twice because a
    disk was too small. With faults, a seed that heals more than its faults explain fails, and so
    does one whose nodes keep anything after the last task.

    Examples:

    - `dataward seeds -n 1000`
    - `dataward seeds --seed 7`
    - `dataward seeds -n 1000 --faults crashes`
    - `dataward seeds -n 10000 --workflows odd`
    """
    from rich.progress import track

    from dataward.cli.output import print_json, stderr_console, stdout_console
    from dataward.cli.seed_trials import healing_line, verdicts_of
    from dataward.sim.faults import parse_faults
    from dataward.sim.healing import Healing

    parse_faults(faults)
    chosen = [seed] if seed is not None else list(range(first, first + count))
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
            replay += f" --workflows {workflows.value}" if workflows is not Workflows.MIXED else ""
            watching.print(f"{problem}\n{replay}", soft_wrap=True)
    bad = [verdict for verdict in verdicts if verdict.problem]
    healing = sum((verdict.healing for verdict in verdicts), Healing())
    if json:
        document = {"faults": faults, "seeds": len(chosen), "failed": len(bad)}
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
