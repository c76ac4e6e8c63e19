"""Reads the parameters of a shape, and reports the workflow that was made."""

from pathlib import Path

from dataward.cli.complaints import visible
from dataward.cli.output import counted, encodable, print_json, stdout_console
from dataward.errors import SettingError
from dataward.model.quantities import show_bytes
from dataward.model.workflow import Workflow


def parameters_of(pairs: list[str]) -> dict[str, str]:
    parameters = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key or not value:
            raise SettingError(f"--set takes NAME=VALUE, such as degree=4, not {pair!r}")
        parameters[key] = value
    return parameters


def report(workflow: Workflow, path: Path, inputs: Path | None, asked: int, *, json: bool) -> None:
    if json:
        print_json(
            {
                "file": encodable(path),
                "inputs": encodable(inputs) if inputs else None,
                "name": workflow.name,
                "tasks": len(workflow),
                "files": len(workflow.file_ids),
                "edges": workflow.edge_count,
                "total_bytes": int(workflow.size_bytes.sum()),
                "total_runtime_seconds": float(workflow.runtime_seconds.sum()),
                "warnings": workflow.warnings,
            }
        )
        return
    near = "" if len(workflow) == asked else f" (the nearest to {asked:,} that this shape allows)"
    console = stdout_console()
    console.print(
        f"{visible(path)}: {counted(len(workflow), 'task')}{near}, "
        f"{counted(len(workflow.file_ids), 'file')} "
        f"({show_bytes(int(workflow.size_bytes.sum()))}), {counted(workflow.edge_count, 'edge')}",
        soft_wrap=True,
    )
    if inputs:
        console.print(f"{visible(inputs)}: its input files", soft_wrap=True)
