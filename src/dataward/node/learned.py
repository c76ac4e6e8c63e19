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
    moved_bytes: int = 0  # of those inputs
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

    def moved(self, seconds: float, size_bytes: int) -> None:
        """Note that a task waited for so long for so many bytes of inputs from elsewhere."""
        self.moving_seconds += seconds
        self.moved_bytes += size_bytes

    def staging_seconds(self, size_bytes: int, described: float | None = None) -> float:
        """How long so many bytes should take to come.

        As long as none have come, by the ``described`` rate of a link, or 0 if that is not known.
        """
        if not self.moved_bytes:
            return size_bytes / described if described else 0.0
        return size_bytes * self.moving_seconds / self.moved_bytes

    def tolerate(self, threshold: float | None, *, may_share: bool) -> None:
        """Follow another policy from now on."""
        self.threshold = threshold
        self.may_share = may_share
