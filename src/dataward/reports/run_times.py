"""Forecasts the run times of a run's tasks from those that have already run."""

import numpy as np

from dataward.model.workflow import Seconds, Workflow


class RunTimes:
    """Learns a mean for each type of task.

    Declared run times may come from another machine, so only their proportions are used.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._declared = workflow.runtime_seconds
        self._types = workflow.types
        kinds = len(workflow.type_names)
        self._seconds = [0.0] * kinds
        self._runs = [0] * kinds
        self._declared_seconds = 0.0  # of the tasks that have run

    def learn(self, task: int, wall_seconds: float) -> None:
        kind = int(self._types[task])
        self._seconds[kind] += wall_seconds
        self._runs[kind] += 1
        self._declared_seconds += float(self._declared[task])

    def expected(self) -> Seconds | None:
        """The expected run time of each task; None before any has run.

        That is the mean of its type. For a type that has not run, it is the declared time, scaled
        by measured over declared time of the others; if nothing was declared, the mean of all.
        """
        runs = np.array(self._runs)
        if not runs.any():
            return None
        seconds = np.array(self._seconds)
        mean = seconds.sum() / runs.sum()
        by_kind = seconds / np.maximum(runs, 1)
        guess = np.full(len(self._declared), mean)
        if self._declared_seconds > 0:
            ratio = seconds.sum() / self._declared_seconds
            guess = np.where(self._declared > 0, self._declared * ratio, mean)
        found: Seconds = np.where(runs[self._types] > 0, by_kind[self._types], guess)
        return found
