"""``dataward inspect``: describes a workflow before it runs."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import (
    CORES_DEFAULT,
    BandwidthOption,
    CoresOption,
    EdgesOption,
    JsonOption,
    WorkflowFile,
)
from dataward.cli.parameters import Option
from dataward.model.edges import Edges

NODES_MAX = 100_000_000


def inspect_command(
    file: WorkflowFile,
    nodes: Annotated[int, Option(help="Nodes, for the bounds.", min=1, max=NODES_MAX)] = 1,
    cores: CoresOption = None,
    bandwidth: BandwidthOption = "1Gbps",
    edge: Annotated[
        str | None,
        Option(help="Link of the server holding the inputs; default: inputs are on nodes."),
    ] = None,
    edges: EdgesOption = Edges.DECLARED,
    svg: Annotated[Path | None, Option(help="Draw the DAG into this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Describe a workflow: size, shape, critical path, and how fast it could possibly run.

    Examples:

    - `dataward inspect montage.json`
    - `dataward inspect montage.json --nodes 16 --cores 4 --json`
    - `dataward inspect montage.json --svg montage.svg`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import (
        counted,
        print_json,
        print_warnings,
        reading_file,
        stdout_console,
        write_text,
    )
    from dataward.cli.workflow_report import (
        print_bounds,
        print_numbers,
        print_path,
        print_profile,
        print_types,
        summary_as_json,
    )
    from dataward.formats import read_workflow
    from dataward.model.quantities import parse_bandwidth
    from dataward.plan.bounds import makespan_bounds
    from dataward.plan.summary import summarise
    from dataward.reports.dag_svg import draw_workflow

    with reading_file(file):
        workflow = read_workflow(file, edges)
        cores = cores or max(CORES_DEFAULT, int(workflow.cores.max()))
        summary = summarise(workflow)
        bounds = makespan_bounds(
            workflow,
            nodes=nodes,
            cores=cores,
            bandwidth_bytes_per_second=parse_bandwidth(bandwidth),
            edge_bandwidth_bytes_per_second=parse_bandwidth(edge) if edge else None,
        )
    print_warnings(workflow, file)
    if svg is not None:
        write_text(svg, draw_workflow(workflow))
    if json:
        print_json(summary_as_json(workflow, summary, bounds))
        return
    console = stdout_console()
    print_numbers(console, workflow, summary, file)
    print_profile(console, workflow)
    print_types(console, summary)
    print_path(console, workflow, summary)
    machine = f"{counted(nodes, 'node')} x {counted(cores, 'core')}, {bandwidth}"
    print_bounds(console, bounds, machine, edge)
    if svg is not None:
        console.print(f"\nThe DAG is drawn in {visible(svg)}", soft_wrap=True)
