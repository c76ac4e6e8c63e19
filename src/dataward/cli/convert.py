"""``dataward convert``: writes any workflow file that dataward reads as WfFormat."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import EdgesOption, JsonOption, SchemaOption, WorkflowFile
from dataward.cli.parameters import Argument
from dataward.model.edges import Edges


def convert_command(
    source: WorkflowFile,
    target: Annotated[Path, Argument(help="Where to write; .gz compresses.")],
    schema: SchemaOption = "1.6",
    edges: EdgesOption = Edges.DECLARED,
    json: JsonOption = False,
) -> None:
    """Write a workflow file as WfFormat.

    Examples:

    - `dataward convert Montage_25.xml montage.json`
    - `dataward convert workflow.yml workflow.json.gz --edges both`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import (
        busy,
        counted,
        encodable,
        print_json,
        print_warnings,
        reading_file,
        stdout_console,
    )
    from dataward.formats import read_workflow, write_workflow

    with reading_file(source):
        workflow = read_workflow(source, edges)
    print_warnings(workflow, source)
    with busy(f"writing {target}"):
        write_workflow(workflow, target, schema)
    if json:
        print_json(
            {"file": encodable(target), "tasks": len(workflow), "edges": workflow.edge_count}
        )
    else:
        size = f"{counted(len(workflow), 'task')}, {counted(workflow.edge_count, 'edge')}"
        stdout_console().print(f"{visible(target)}: {size}", soft_wrap=True)
