"""Asks, before a run starts, whether it can be promised by its deadline on this machine."""

from contextlib import nullcontext
from datetime import datetime

from dataward.deadlines.admission import AcceptedDeadline, admit
from dataward.live.promise_book import BookSlot, PromiseBook
from dataward.live.slice import Slice
from dataward.model.deadline import WantedDeadline
from dataward.model.workflow import Workflow
from dataward.runs.deadline_answer import DeadlineAnswer
from dataward.runs.known_times import measured_seconds
from dataward.runs.preparation import Preparer
from dataward.runs.promise_keeping import wanted_of_run
from dataward.runs.run_directory import RunDirectory
from dataward.runs.workflow_run import peek_at_outcomes
from dataward.strategies.peercomp import cores_of


def answer_for(
    workflow: Workflow,
    preparer: Preparer,
    directory: RunDirectory,
    machine: Slice,
    wanted: WantedDeadline,
    book: PromiseBook | None = None,
) -> DeadlineAnswer:
    """The answer to a deadline; everything in the run directory stays as it is.

    If the deadline is accepted, the promises are in the book.
    """
    outcomes = peek_at_outcomes(directory) if directory.exists() else {}
    decision = preparer.foresee(outcomes)
    asked_for = wanted_of_run(workflow, outcomes, decision)
    cores = cores_of(machine.platform())
    with nullcontext() if book is None else book.admission():
        now = (datetime.now().astimezone() - wanted.asked).total_seconds()
        clock = wanted.asked.timestamp()
        if book is not None:
            cores = book.cores(cores, clock)
        found = admit(asked_for, cores, now, wanted.seconds)
        if book is not None and isinstance(found, AcceptedDeadline):
            book.write(
                [
                    BookSlot(core, slot.deadline + clock, slot.seconds)
                    for core, queue in found.queues.items()
                    for slot in queue
                ],
                {},
            )
    is_open = asked_for.remaining.is_open
    declared = is_open & (measured_seconds(workflow, outcomes) == 0) & ~workflow.is_measured
    return DeadlineAnswer(wanted, found, int(is_open.sum()), int(declared.sum()))
