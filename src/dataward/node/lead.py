"""How many tasks the runner is given before there is a core for them.

On its way to a core a task goes through queue, store and runner, which takes some tenths of a
millisecond. If tasks are as short as that, cores would idle half of the time: so the runner is
given a few tasks early. But only few, since a task that has begun cannot be given to another node.
"""

from dataward.node.settings import NodeSettings

TASKS_MAX = 128  # for each core: more would not help


class Lead:
    def __init__(self, settings: NodeSettings, cores: int) -> None:
        self._settings = settings
        self._cores = cores
        self._seconds = -1.0  # the run time of recent tasks; below 0: none has run yet
        self.tasks = 0  # how many tasks the runner may have for which there is no core yet

    def learn(self, seconds: float) -> None:
        """Record how long a task took."""
        self._seconds = believed(self._seconds, seconds)
        in_time = self._settings.lead_seconds / max(self._seconds, 1e-9)
        self.tasks = self._cores * int(min(TASKS_MAX, in_time))


def believed(known: float, seen: float) -> float:
    """The new estimate of a run time, from the last one (below 0: none) and a measured one.

    A run slower than the estimate is believed at once; a faster one counts for a quarter.
    """
    return seen if known < 0 or seen > known else known + (seen - known) / 4
