"""``dataward generate``: makes a workflow of a given shape and size."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption, SchemaOption, SeedOption
from dataward.cli.parameters import Argument, Option

SCALE_MAX = 1000.0


def generate_command(
    name: Annotated[str, Argument(help="The shape, one of those listed above.")],
    tasks: Annotated[int, Option("--tasks", "-n", help="How many tasks.", min=1)] = 100,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Where to write; default NAME-TASKS.json.")
    ] = None,
    runnable: Annotated[
        bool,
        Option(
            "--runnable",
            help="Give every task a real command (needs only Python) that reads its inputs, uses "
            "the processor for its run time and writes its outputs; write the inputs beside it.",
        ),
    ] = False,
    scale_time: Annotated[
        float, Option(help="Multiply run times, with --runnable.", min=0.0, max=SCALE_MAX)
    ] = 1.0,
    scale_data: Annotated[
        float, Option(help="Multiply file sizes, with --runnable.", min=0.0, max=SCALE_MAX)
    ] = 1.0,
    set_: Annotated[
        list[str] | None, Option("--set", help="A shape's own parameter, as degree=4.")
    ] = None,
    schema: SchemaOption = "1.6",
    json: JsonOption = False,
) -> None:
    """Make a workflow of a known shape, of any size.

    Examples:

    - `dataward generate montage --tasks 1000 --seed 7 -o montage.json`
    - `dataward generate fan-in --tasks 1111 --set degree=10`
    - `dataward generate sipht -n 100 --runnable --scale-data 0.001 -o sipht.json`

    Shapes, with their possible sizes and what `--set` changes in them:
    """
    from dataward.cli.generated import parameters_of, report
    from dataward.cli.output import busy
    from dataward.errors import SettingError
    from dataward.formats import write_workflow
    from dataward.generate import generate, make_runnable, write_inputs

    if not runnable and (scale_time != 1.0 or scale_data != 1.0):
        raise SettingError("--scale-time and --scale-data go with --runnable; add it")
    with busy(f"generating {name}"):
        workflow = generate(name, tasks, seed, **parameters_of(set_ or []))
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
    report(workflow, path, inputs, tasks, json=json)


def help_listing() -> str:
    """The shapes, for the help."""
    from dataward.generate import SHAPES

    return "\n".join(
        f"- **{shape.name}**: {shape.description}; {shape.granularity}"
        + "".join(f"; `--set {p.name}={p.default:g}`: {p.meaning}" for p in shape.parameters)
        for shape in SHAPES.values()
    )
