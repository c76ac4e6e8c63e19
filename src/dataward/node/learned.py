"""What a node has learned from the tasks it ran, for rules and movers that want to know."""

from dataclasses import dataclass


@dataclass
class Learned:
    """Counts since the node started; ``tasks`` are those that ran to a good end.

    ``threshold`` is how much moving of data this node tolerates by now, if a mover has changed what
    the strategy's home rule says; ``may_share`` is whether tasks with much data may be shared.
    """

    tasks: int = 0
    run_seconds: float = 0.0
    moving_seconds: float = 0.0  # that tasks waited until inputs from elsewhere had come
    threshold: float | None = None
    may_share: bool = True

    @property
    def mean_seconds(self) -> float:
        """The mean run time; 0 if no task has run."""
        return self.run_seconds / self.tasks if self.tasks else 0.0

    def ran(self, seconds: float) -> None:
        """Note that a task ran for so long, to a good end."""
        self.tasks += 1
        self.run_seconds += seconds

    def moved(self, seconds: float) -> None:
        """Note that a task waited for so long for inputs from elsewhere."""
        self.moving_seconds += seconds

    def tolerate(self, threshold: float | None, *, may_share: bool) -> None:
        """Follow another policy from now on."""
        self.threshold = threshold
        self.may_share = may_share
