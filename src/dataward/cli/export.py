"""``dataward export``: writes a run's workflow with the values that the run measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dataward.cli.options import (
    ContactOption,
    ElsewhereOption,
    JsonOption,
    RunArgument,
    SchemaOption,
)
from dataward.cli.parameters import Option

if TYPE_CHECKING:
    from dataward.model.workflow import Workflow
    from dataward.runs.run_directory import RunRecord


def export_command(
    run: RunArgument,
    output: Annotated[Path, Option("--output", "-o", help="Where to write; .gz compresses.")],
    access: ElsewhereOption = None,
    contacts: ContactOption = None,
    schema: SchemaOption = "1.6",
    json: JsonOption = False,
) -> None:
    """Write a run's workflow as WfFormat, with the run times, sizes and memory that were measured.

    The result can be inspected and simulated like any other workflow. Of a task that was skipped,
    the last run before counts in which it ran.

    Examples:

    - `dataward export montage.run -o measured.json`
    - `dataward export montage.run/2 -o measured.json.gz --schema 1.5`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import (
        busy,
        counted,
        encodable,
        print_json,
        stderr_console,
        stdout_console,
    )
    from dataward.cli.recorded import run_named, workflow_of
    from dataward.formats import write_workflow

    with run_named(run, access, contacts) as record:
        declared = workflow_of(record)
        measured = _measured(record, declared)
        name = run if access is not None else record.path
    warnings = [sentence for sentence in measured.warnings if sentence not in declared.warnings]
    for sentence in warnings:
        stderr_console().print(f"warning: {visible(name)}: {sentence}", soft_wrap=True)
    with busy(f"writing {output}"):
        write_workflow(measured, output, schema)
    if json:
        print_json({"file": encodable(output), "tasks": len(measured), "warnings": warnings})
    else:
        said = f"{visible(output)}: {counted(len(measured), 'task')}"
        stdout_console().print(said, soft_wrap=True)


def _measured(record: "RunRecord", declared: "Workflow") -> "Workflow":
    from dataward.api.report import with_runs_before
    from dataward.cli.output import busy
    from dataward.cli.recorded import events_of
    from dataward.errors import FormatError, WorkflowError
    from dataward.reports.measured import measured_workflow

    with busy(f"reading {record.events}"):
        try:
            return measured_workflow(declared, map(events_of, with_runs_before(record)))
        except WorkflowError as error:  # a measurement that makes no sense
            raise FormatError(str(record.events), str(error)) from error
