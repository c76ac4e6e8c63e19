"""``dataward`` as it is, but for what a recording needs.

    python -m power.reported_run REPORTS [--without SYNC] -- ARGUMENTS

Every task that is reported as complete is told at once to the file REPORTS, a line for each. The
journal is compacted often, and digests of files are remembered however new the files are: else
neither would happen in a small, fast workflow. ``--without`` leaves one sync out, to see that it is
missed.
"""

import os
import sys
from functools import partial
from typing import Any

from dataward.cli.main import main
from dataward.live import session
from dataward.model.events import Event, TaskFinished
from dataward.model.states import TaskState
from dataward.runs import input_digests
from dataward.runs.workflow_run import WorkflowRun
from dataward.stores.embedded import EmbeddedSettings
from power.left_out import LEFT_OUT

COMPACT_BYTES = 4_000


def tell_at_once(reports: str) -> None:
    file = os.open(reports, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    emit = WorkflowRun._emit

    def emit_and_tell(self: WorkflowRun, event: Event) -> None:
        if isinstance(event, TaskFinished) and event.state is TaskState.COMPLETE:
            os.write(file, f"{event.task}\n".encode())
        emit(self, event)

    WorkflowRun._emit = emit_and_tell  # type: ignore[method-assign]


def compact_often() -> None:
    often: Any = partial(EmbeddedSettings, compact_bytes_min=COMPACT_BYTES, compact_ratio=1.5)
    session.EmbeddedSettings = often


if __name__ == "__main__":
    end = sys.argv.index("--")
    reports, *without = sys.argv[1:end]
    for name in without[1:]:
        LEFT_OUT[name]()
    tell_at_once(reports)
    compact_often()
    input_digests.SETTLED_NS = 0
    main(sys.argv[end + 1 :])
