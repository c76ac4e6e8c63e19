"""``dataward trace``: writes an event list as a trace for Perfetto."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option


def trace_command(
    events: Annotated[Path, Argument(help="An event list, as `simulate --events` writes.")],
    output: Annotated[Path, Option("--output", "-o", help="Where to write the trace.")],
    json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Turn a run's events into a Chrome trace: nodes as processes, executors as threads.

    Open it at ui.perfetto.dev or in chrome://tracing.

    Examples:

    - `dataward trace run.events -o trace.json`
    """
    from dataward.cli.output import busy, print_json, stderr_console, stdout_console
    from dataward.reports.event_file import EventFileReader
    from dataward.reports.trace import write_chrome_trace

    reader = EventFileReader(events)
    with busy(f"reading {events}"):
        write_chrome_trace(reader, output)
    for sentence in reader.warnings:
        stderr_console().print(f"warning: {events}: {sentence}", soft_wrap=True)
    if json:
        print_json({"file": str(output), "warnings": reader.warnings})
    else:
        stdout_console().print(f"{output}: open it at ui.perfetto.dev", soft_wrap=True)
