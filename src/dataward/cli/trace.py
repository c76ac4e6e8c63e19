"""``dataward trace``: writes an event list as a trace for Perfetto."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption
from dataward.cli.parameters import Argument, Option


def trace_command(
    events: Annotated[
        Path,
        Argument(help="A run, as montage.run/1, or a list of 'simulate --events' or 'events'."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Where to write the trace.")],
    json: JsonOption = False,
) -> None:
    """Turn a run's events into a Chrome trace: nodes as processes, executors as threads.

    Open it at ui.perfetto.dev or in chrome://tracing.

    Examples:

    - `dataward trace run.events -o trace.json`
    - `dataward trace montage.run -o trace.json`
    """
    from dataward.cli.output import (
        busy,
        check_spares,
        print_json,
        stderr_console,
        stdout_console,
    )
    from dataward.cli.recorded import recorded_run
    from dataward.reports.event_file import EventFileReader
    from dataward.reports.trace import write_chrome_trace

    if events.is_dir():
        events = recorded_run(str(events)).events
    check_spares(events, output, what="the list of events")
    reader = EventFileReader(events)
    with busy(f"reading {events}"):
        write_chrome_trace(reader, output)
    for sentence in reader.warnings:
        stderr_console().print(f"warning: {events}: {sentence}", soft_wrap=True)
    if json:
        print_json({"file": str(output), "warnings": reader.warnings})
    else:
        stdout_console().print(f"{output}: open it at ui.perfetto.dev", soft_wrap=True)
