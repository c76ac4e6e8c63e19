"""What a task may use while it runs."""

from dataclasses import dataclass, replace

from dataward.live.orders import Limits


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """How much time, memory and log space a task may use."""

    time_limit_seconds: float = 0.0  # 0: none
    memory_ratio_max: float = 1.0  # of the memory that the workflow gives a task
    memory_bytes_spare: int = 0  # on top of that
    log_bytes_max: int = 256 << 20
    grace_seconds: float = 2.0

    def for_measured(self) -> "RunnerSettings":
        """The settings for a workflow whose memory figures were measured, and are no limits.

        A task uses a little more the next time, so it is ended only if it uses much more.
        """
        return replace(self, memory_ratio_max=1.5, memory_bytes_spare=64 << 20)

    def limits(self, memory_bytes: int) -> Limits:
        """The limits of a task that declares this much memory; 0 if it declares none."""
        memory = int(memory_bytes * self.memory_ratio_max) + self.memory_bytes_spare
        return Limits(
            self.time_limit_seconds,
            memory if memory_bytes else 0,
            self.log_bytes_max,
            self.grace_seconds,
        )
