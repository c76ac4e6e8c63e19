"""The ``dataward`` command: joins the subcommands, turns errors into messages and exit codes."""

import codecs
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from dataward.cli import (
    bound,
    clean,
    convert,
    export,
    generate,
    inspect,
    logs,
    run,
    runs,
    seeds,
    simulate,
    trace,
    why,
)
from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import complain
from dataward.errors import DatawardError, OutputError, OwnFaultError, SettingError
from dataward.live.standard_streams import open_python_streams, open_standard_streams

# Since about 0.20 typer has its own copy of click and does not export this class.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="dataward",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dataward {version('dataward')}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 cannot write, 130 Ctrl-C.",
)
def about(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Runs workflows close to their data.

    Start here:

    - `dataward generate montage --tasks 100 -o montage.json`
    - `dataward inspect montage.json`
    - `dataward simulate montage.json --nodes 8 --plot run.svg`
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("run")(run.run_command)
app.command("generate")(generate.generate_command)
app.command("inspect")(inspect.inspect_command)
app.command("bound")(bound.bound_command)
app.command("convert")(convert.convert_command)
app.command("simulate")(simulate.simulate_command)
app.command("trace")(trace.trace_command)
app.command("seeds")(seeds.seeds_command)
app.command("runs")(runs.runs_command)
app.command("why")(why.why_command)
app.command("logs")(logs.logs_command)
app.command("export")(export.export_command)
app.command("clean")(clean.clean_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit; bad input never shows a traceback."""
    open_standard_streams()
    open_python_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal cannot show are escaped instead of raising an error.
        codecs.register_error("dataward", _spell_out)
        sys.stdout.reconfigure(errors="dataward")
    try:
        sys.exit(_run(arguments))
    except DatawardError as error:
        complain(str(error))
        sys.exit(_exit_code(error))
    except _UsageError as error:
        complain(_usage_sentence(error))
        sys.exit(ExitCode.USAGE)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except MemoryError:
        complain("not enough memory for this")
        sys.exit(ExitCode.FAILED)
    except (OSError, SystemExit) as stop:
        if _reader_has_left(stop):
            # The reader of the pipe, such as `head`, has ended: not an error.
            _discard_stdout()
            sys.exit(ExitCode.OK)
        if isinstance(stop, SystemExit):
            raise
        if stop.errno in (errno.EMFILE, errno.ENFILE):
            complain("too many open files; raise the limit (ulimit -n), or use fewer slots")
            sys.exit(ExitCode.FAILED)
        # Other files raise our own errors, so this is most likely stdout on a full disk.
        _discard_stdout()
        complain(f"cannot write {stop.filename or 'the result'}: {stop.strerror or stop}")
        sys.exit(ExitCode.CANNOT_WRITE)


def _run(arguments: Sequence[str] | None) -> int:
    code = app(
        args=None if arguments is None else list(arguments),
        prog_name="dataward",
        standalone_mode=False,
    )
    sys.stdout.flush()  # here, where `main` can still report a failure
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt  # typer has turned it into an exit code
    return code if isinstance(code, int) else ExitCode.OK


def _spell_out(error: UnicodeError) -> tuple[str | bytes, int]:
    """Like ``backslashreplace``, but the bullets of rich's lists become asterisks."""
    if isinstance(error, UnicodeEncodeError) and error.object[error.start] == "•":
        return "*", error.start + 1
    return codecs.backslashreplace_errors(error)


def _usage_sentence(error: Exception) -> str:
    sentence = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context: typer.Context | None = getattr(error, "ctx", None)
    command = context.command_path if context else "dataward"
    return f"{sentence[:1].lower()}{sentence[1:]}; see {command} --help"


def _reader_has_left(stop: BaseException) -> bool:
    """Whether this is a broken pipe, or the exit into which rich and typer turn one."""
    return isinstance(stop, BrokenPipeError) or isinstance(stop.__context__, BrokenPipeError)


def _discard_stdout() -> None:
    """Redirect stdout to nowhere, so that Python's last flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_code(error: DatawardError) -> ExitCode:
    if isinstance(error, SettingError):
        return ExitCode.USAGE
    if isinstance(error, OutputError):
        return ExitCode.CANNOT_WRITE
    if isinstance(error, OwnFaultError):
        return ExitCode.FAILED
    return ExitCode.BAD_INPUT


if __name__ == "__main__":
    main()
