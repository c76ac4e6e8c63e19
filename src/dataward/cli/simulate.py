"""``dataward simulate``: runs a workflow on simulated machines."""

import time
from pathlib import Path
from typing import Annotated

from dataward.cli.deadline_option import BestEffort, DeadlineText, deadline_given
from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import (
    BandwidthOption,
    CoresOption,
    EventsOption,
    FaultsOption,
    JsonOption,
    RetriesOption,
    SeedOption,
    WorkflowFile,
)
from dataward.cli.parameters import Option
from dataward.model.platform import Placement

NODES_DEFAULT = 16
BANDWIDTH_DEFAULT = "1Gbps"
PROMISING_NODES_MAX = 100_000  # 24 s and 3 GB with a Montage of 30 tasks, and in proportion


def simulate_command(
    file: WorkflowFile,
    nodes: Annotated[int, Option(help="How many nodes.", min=1)] = NODES_DEFAULT,
    cores: CoresOption = None,
    bandwidth: BandwidthOption = BANDWIDTH_DEFAULT,
    platform: Annotated[
        Path | None, Option(help="A platform file (YAML) instead of equal nodes.")
    ] = None,
    inputs: Annotated[
        Placement | None,
        Option(
            help="Where inputs are: at an edge server, or on nodes, drawn or dealt; default edge,"
            " but a node alone has them."
        ),
    ] = None,
    copies: Annotated[int, Option(help="Copies of each input that is on nodes.", min=1)] = 1,
    strategy: Annotated[
        str, Option(help="Strategies, with commas between them, or all: best first.")
    ] = "dataward",
    seed: SeedOption = 0,
    faults: FaultsOption = "none",
    set_: Annotated[
        list[str] | None,
        Option("--set", help="A node setting, as backups_max=1; --set x=1 lists them."),
    ] = None,
    retries: RetriesOption = 0,
    estimates: Annotated[
        str,
        Option(
            help="How well plan and nodes know run times and sizes: exact, unknown, or the sigma"
            " of a lognormal error, as 0.5."
        ),
    ] = "exact",
    remove: Annotated[
        list[str] | None,
        Option(help="Remove a task, and what depends on it, after a time: TASK@90s."),
    ] = None,
    deadline: DeadlineText = None,
    best_effort: BestEffort = False,
    events: EventsOption = None,
    plot: Annotated[Path | None, Option(help="Draw the run into this SVG file.")] = None,
    json: JsonOption = False,
) -> None:
    """Run a workflow on simulated machines, by one or several strategies.

    The nodes run their real code; time, disks, links and faults are simulated. The workflow says
    how long tasks really run and how much they really write; run times that were measured include
    reading and writing disks, which equal nodes then do not charge for again. With --estimates,
    plan and nodes do not know that beforehand: nodes learn run times from the tasks that they have
    run, and sizes when files are committed. Sizes of the workflow's inputs are always known.

    Examples:

    - `dataward simulate montage.json --nodes 64`
    - `dataward simulate montage.json --strategy adage,adage-random --faults crashes --seed 7`
    - `dataward simulate montage.json --strategy all --plot all.svg`
    - `dataward simulate montage.json --nodes 8 --events run.events --plot run.svg`
    - `dataward simulate montage.json --platform two-sites.yaml --set backups_max=1`
    - `dataward simulate montage.json --nodes 64 --estimates 0.5`
    - `dataward simulate montage.json --nodes 4 --estimates 0.5 --deadline 10m`
    - `dataward simulate montage.json --remove mAdd_1@30s --remove mShrink_1@2min`

    Strategies:
    """
    from dataward.api.simulate import cores_for, equal_nodes, lower_bound_seconds, parse_removals
    from dataward.cli.deadline_line import refusal_as_json
    from dataward.cli.output import (
        check_spares,
        print_json,
        print_warnings,
        reading_file,
        stderr_console,
        stdout_console,
    )
    from dataward.cli.simulating import (
        draw_results,
        print_results,
        result_as_json,
        shown_simulation,
    )
    from dataward.errors import DeadlineRefusedError, SettingError
    from dataward.formats import read_workflow
    from dataward.formats.platform_yaml import read_platform
    from dataward.model.quantities import parse_bandwidth
    from dataward.plan.estimates import parse_estimates
    from dataward.sim.faults import parse_faults
    from dataward.strategies.choosing import changed_strategies
    from dataward.strategies.registry import DEFAULT, KEEPING

    wanted = deadline_given(deadline, best_effort)
    if wanted is not None and strategy == DEFAULT:
        strategy = KEEPING
    chosen = changed_strategies(strategy, set_ or [])
    if len(chosen) > 1 and events:
        raise SettingError("--events records one run: give one strategy")
    if platform is None and nodes > PROMISING_NODES_MAX and KEEPING in [s.name for s in chosen]:
        raise SettingError(
            f"{nodes:,} nodes are too many for {KEEPING} here, whose plan weighs every core for "
            f"every task: give --nodes {PROMISING_NODES_MAX} at most, or simulate PeerComp's tree: "
            f"dataward deadlines --nodes {nodes}"
        )
    if platform is not None:
        _refuse_beside_platform(
            nodes=nodes != NODES_DEFAULT,
            cores=cores is not None,
            bandwidth=bandwidth != BANDWIDTH_DEFAULT,
            inputs=inputs is not None,
            copies=copies > 1,
        )
    elif copies > 1 and inputs in (None, Placement.EDGE):
        raise SettingError("--copies is for inputs on nodes: give --inputs spread or dealt, too")
    check_spares(file, events, plot)
    parse_faults(faults)
    known = parse_estimates(estimates)
    with reading_file(file):
        workflow = read_workflow(file)
        cores = cores or cores_for(workflow)
    removals = parse_removals(remove or [], workflow)
    if platform is not None:
        machines = read_platform(platform)
    else:
        link = parse_bandwidth(bandwidth)
        machines = equal_nodes(workflow, nodes, cores, bandwidth=link, inputs=inputs, copies=copies)
    print_warnings(workflow, str(file))
    bound = lower_bound_seconds(workflow, machines)
    results = []
    for each in chosen:
        began = time.perf_counter()
        try:
            report, count = shown_simulation(
                workflow, machines, each, seed=seed, faults=faults, retries=retries,
                estimates=known, removals=removals, events=events, keep=plot is not None,
                deadline=wanted,
            )  # fmt: skip
        except DeadlineRefusedError as error:
            if json:
                print_json([refusal_as_json(error)])
            else:
                stdout_console().print(str(error), soft_wrap=True)
            raise SystemExit(ExitCode.REFUSED) from None
        results.append((report, count, time.perf_counter() - began))
    results.sort(key=lambda result: result[0].summary.makespan_seconds)
    if plot is not None:
        draw_results(plot, [report for report, _, _ in results])
    if json:
        print_json([result_as_json(each, bound, n, wall, known) for each, n, wall in results])
    else:
        print_results(
            workflow, machines, seed, faults, known, bound, [each for each, _, _ in results]
        )
    for path in filter(None, (events, plot)):
        stderr_console().print(f"wrote {path}", soft_wrap=True)


def _refuse_beside_platform(**given: bool) -> None:
    """Raise SettingError if an option is given of which the platform file has its own word."""
    from dataward.errors import SettingError

    options = [f"--{name}" for name, is_given in given.items() if is_given]
    if options:
        raise SettingError(f"--platform says that itself: leave out {' and '.join(options)}")


def help_listing() -> str:
    """The strategies, for the help."""
    from dataward.strategies.registry import STRATEGIES

    return "\n".join(f"- **{s.name}**: {s.summary}" for s in STRATEGIES.values())
