"""``dataward generate``: makes a workflow of a given shape and size."""

from pathlib import Path
from typing import Annotated

import typer

from dataward.cli.output import busy, counted, encodable, print_json, stdout_console, visible
from dataward.errors import SettingError
from dataward.formats import write_workflow
from dataward.generate import SHAPES, Shape, generate, make_runnable, write_inputs
from dataward.model.quantities import show_bytes
from dataward.model.workflow import Workflow

SCALE_MAX = 1000.0


def _help(shape: Shape) -> str:
    settings = "".join(f"; `--set {p.name}={p.default:g}`: {p.meaning}" for p in shape.parameters)
    return f"- **{shape.name}**: {shape.description}; {shape.granularity}{settings}"


_SHAPES = "\n".join(map(_help, SHAPES.values()))


def generate_command(
    name: Annotated[str, typer.Argument(help="The shape, one of those listed above.")],
    tasks: Annotated[int, typer.Option("--tasks", "-n", help="How many tasks.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Same seed, same file.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; default NAME-TASKS.json.")
    ] = None,
    runnable: Annotated[
        bool,
        typer.Option(
            "--runnable",
            help="Give every task a real command (needs only Python) that reads its inputs, uses "
            "the processor for its run time and writes its outputs; write the inputs beside it.",
        ),
    ] = False,
    scale_time: Annotated[
        float, typer.Option(help="Multiply run times, with --runnable.", min=0.0, max=SCALE_MAX)
    ] = 1.0,
    scale_data: Annotated[
        float, typer.Option(help="Multiply file sizes, with --runnable.", min=0.0, max=SCALE_MAX)
    ] = 1.0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A shape's own parameter, as degree=4.")
    ] = None,
    schema: Annotated[str, typer.Option(help="WfFormat version: 1.6 or 1.5.")] = "1.6",
    json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    if not runnable and (scale_time != 1.0 or scale_data != 1.0):
        raise SettingError("--scale-time and --scale-data go with --runnable; add it")
    with busy(f"generating {name}"):
        workflow = generate(name, tasks, seed, **_parameters(set_ or []))
        if runnable:
            workflow = make_runnable(workflow, scale_time, scale_data)
    path = output or Path(f"{workflow.name}.json")
    with busy(f"writing {path}"):
        write_workflow(workflow, path, schema)
    inputs = None
    if runnable:
        stem = path.name.removesuffix(".gz").removesuffix(".json")
        inputs = path.with_name(stem + ".inputs")
        with busy(f"writing inputs to {inputs}"):
            write_inputs(workflow, inputs)
    _report(workflow, path, inputs, tasks, json=json)


# Not written as a plain docstring, because it lists the contents of SHAPES.
generate_command.__doc__ = f"""Make a workflow of a known shape, of any size.

Examples:

- `dataward generate montage --tasks 1000 --seed 7 -o montage.json`
- `dataward generate fan-in --tasks 1111 --set degree=10`
- `dataward generate sipht -n 100 --runnable --scale-data 0.001 -o sipht.json`

Shapes, with their possible sizes and what `--set` changes in them:

{_SHAPES}
"""


def _parameters(pairs: list[str]) -> dict[str, str]:
    parameters = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key or not value:
            raise SettingError(f"--set takes NAME=VALUE, such as degree=4, not {pair!r}")
        parameters[key] = value
    return parameters


def _report(workflow: Workflow, path: Path, inputs: Path | None, asked: int, *, json: bool) -> None:
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
