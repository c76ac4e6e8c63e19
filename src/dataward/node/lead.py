"""How far a node runs ahead of its cores.

On its way to a core a task goes through queue, store and runner, which takes some tenths of a
millisecond. If tasks are as short as that, cores would idle half of the time: so the runner is
given a few before there is a core for them. But only a moment's worth, for what is begun cannot
be given to another node any more.
"""

from dataward.node.settings import NodeSettings

TASKS_MAX = 128  # for each core: more would bring nothing


class Lead:
    def __init__(self, settings: NodeSettings, cores: int) -> None:
        self._settings = settings
        self._cores = cores
        self._seconds = -1.0  # that a task takes of late; below 0: none has run yet
        self.tasks = 0  # how many the runner may have for which there is no core yet

    def learn(self, seconds: float) -> None:
        """A task took so long."""
        self._seconds = believed(self._seconds, seconds)
        in_time = self._settings.lead_seconds / max(self._seconds, 1e-9)
        self.tasks = self._cores * int(min(TASKS_MAX, in_time))


def believed(known: float, seen: float) -> float:
    """What a run is taken to last, below 0 if unknown. Slower than expected is believed at once."""
    return seen if known < 0 or seen > known else known + (seen - known) / 4
