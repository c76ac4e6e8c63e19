"""What earlier runs and the workflow's author tell of run times and sizes: estimates for a run."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np

from dataward.model.estimate import estimate_of
from dataward.model.workflow import Bytes, Seconds, TaskId, Workflow
from dataward.node.learned_times import LearnedTimes
from dataward.plan.estimates import Estimated
from dataward.runs.outcomes import Outcome

MEASURED_SPREAD = 0.3  # the same task on the same machine, which has other work at times
DECLARED_SPREAD = 1.0  # an author's word, or another machine's
COMMON = 0.8  # of the spread: runs of the same tasks, minutes apart, on a machine with other work

Outcomes = Mapping[TaskId, Outcome]


def measured_seconds(workflow: Workflow, outcomes: Outcomes) -> Seconds:
    """How long each task ran when it last did; 0 for those that never ran to their end."""
    seconds = np.zeros(len(workflow))
    for task, id in enumerate(workflow.task_ids if outcomes else ()):
        outcome = outcomes.get(id)
        if outcome is not None and not outcome.failure:
            seconds[task] = outcome.seconds
    return seconds


def estimated_from(workflow: Workflow, outcomes: Outcomes) -> Estimated:
    """What is known of a workflow before it runs, if earlier runs had these outcomes.

    A task that has run takes as long as it did then. For another the author's run time counts; it
    may come from another machine, so it is corrected by how wrong the author was about tasks of
    its type that have run. Without that, the mean of its type in earlier runs is a guess, which
    nodes give up for what they learn in this run. Files that were written then are as large now.
    """
    measured, declared = measured_seconds(workflow, outcomes), workflow.runtime_seconds
    said_spread = MEASURED_SPREAD if workflow.is_measured else DECLARED_SPREAD
    seconds = np.where(measured > 0, measured, declared)
    spread = np.where(measured > 0, MEASURED_SPREAD, said_spread)
    spread[seconds == 0] = inf
    if measured.any():
        _fill_in(workflow, measured, seconds, spread)
    sizes = _sizes(workflow, outcomes) if outcomes else workflow.size_bytes
    timed = replace(workflow, runtime_seconds=seconds, size_bytes=sizes)
    return Estimated(timed, spread, COMMON)


def _fill_in(workflow: Workflow, measured: Seconds, seconds: Seconds, spread: Seconds) -> None:
    """Estimate the tasks that have not run by those that have, in ``seconds``."""
    times = LearnedTimes()
    types = [workflow.type_names[kind] for kind in workflow.types.tolist()]
    declared = workflow.runtime_seconds
    for task in np.flatnonzero(measured).tolist():
        times.learn(types[task], float(measured[task]), float(declared[task]))
    for task in np.flatnonzero(measured == 0).tolist():
        given = estimate_of(float(declared[task]), float(spread[task]))
        seconds[task] = times.expected_seconds(given, types[task])


def _sizes(workflow: Workflow, outcomes: Outcomes) -> Bytes:
    written = {file.id: file.size_bytes for known in outcomes.values() for file in known.outputs}
    sizes = workflow.size_bytes.copy()
    made = workflow.producers.degrees()
    for number, file in enumerate(workflow.file_ids):
        if made[number]:
            sizes[number] = written.get(file, sizes[number])
    return sizes
