"""The ``dataward`` command: joins the subcommands, turns errors into sentences and exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from dataward.cli import bound, convert, generate, inspect
from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import stderr_console
from dataward.errors import DatawardError, OutputError, SettingError

app = typer.Typer(
    name="dataward",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 cannot write, 130 Ctrl-C."
)
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Runs workflows close to their data.

    Start here: `dataward generate montage --tasks 100 -o montage.json`, then
    `dataward inspect montage.json`.
    """
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"dataward {installed('dataward')}")
        raise typer.Exit


app.command("generate")(generate.generate_command)
app.command("inspect")(inspect.inspect_command)
app.command("bound")(bound.bound_command)
app.command("convert")(convert.convert_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit; bad input never shows a traceback."""
    try:
        app(args=None if arguments is None else list(arguments))
    except DatawardError as error:
        stderr_console().print(f"dataward: {error}", soft_wrap=True)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        stderr_console().print("dataward: interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except MemoryError:
        stderr_console().print("dataward: not enough memory for this")
        sys.exit(ExitCode.FAILED)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    sys.exit(ExitCode.OK)


def _exit_code(error: DatawardError) -> ExitCode:
    if isinstance(error, SettingError):
        return ExitCode.USAGE
    if isinstance(error, OutputError):
        return ExitCode.CANNOT_WRITE
    return ExitCode.BAD_INPUT
