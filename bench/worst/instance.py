"""One instance of the search: a small workflow and the platform that it runs on."""

from dataclasses import dataclass
from math import floor, log10
from pathlib import Path

from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Placement, Platform
from dataward.model.workflow import Workflow


@dataclass(frozen=True, slots=True)
class TaskOf:
    """A task that reads what its parents write, and some inputs; it writes one file."""

    seconds: float
    output_bytes: int
    parents: tuple[int, ...] = ()  # by index; all are before the task
    inputs: tuple[int, ...] = ()  # of the instance's inputs, by index
    cores: int = 1


@dataclass(frozen=True, slots=True)
class NodeOf:
    cores: int
    speed: float
    up_bytes_per_second: float
    down_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Instance:
    """A workflow and a platform; inputs are on ``copies`` nodes, or at the origin if that is 0.

    Which nodes have which input is drawn by the ``seed``, as is everything else in the simulation.
    """

    tasks: tuple[TaskOf, ...]
    inputs_bytes: tuple[int, ...]
    nodes: tuple[NodeOf, ...]
    origin_bytes_per_second: float
    copies: int
    seed: int

    @property
    def cores_max(self) -> int:
        """The most cores that a task needs: no more than every node has.

        Some strategies give a task to a node with fewer cores, which then runs it as fast: on such
        instances they would win by that alone.
        """
        return min(node.cores for node in self.nodes)

    def workflow(self) -> Workflow:
        builder = WorkflowBuilder("worst")
        for number, size_bytes in enumerate(self.inputs_bytes):
            builder.file(f"in{number}", size_bytes)
        for number, task in enumerate(self.tasks):
            builder.file(f"f{number}", task.output_bytes)
            builder.task(
                f"t{number}",
                inputs=[*(f"f{p}" for p in task.parents), *(f"in{i}" for i in task.inputs)],
                outputs=[f"f{number}"],
                runtime_seconds=task.seconds,
                cores=min(task.cores, self.cores_max),
            )
        return builder.build()

    def platform(self) -> Platform:
        return Platform(
            tuple(
                Machine(
                    NodeId(f"n{number}"),
                    cores=node.cores,
                    speed=node.speed,
                    up_bytes_per_second=node.up_bytes_per_second,
                    down_bytes_per_second=node.down_bytes_per_second,
                )
                for number, node in enumerate(self.nodes)
            ),
            origin_bytes_per_second=self.origin_bytes_per_second,
            placement=Placement.SPREAD if self.copies else Placement.EDGE,
            copies=max(self.copies, 1),
        )


def rounded(value: float) -> float:
    """The value to two digits: short to write down, and no worse for a search."""
    return round(value, 1 - floor(log10(value)))


def write_platform(instance: Instance, path: Path) -> None:
    """Write the platform as a file for ``dataward simulate --platform``."""
    lines = [f"origin_bandwidth: {instance.origin_bytes_per_second * 8 / 1e6:g}Mbps"]
    if instance.copies:
        lines += ["inputs: spread", f"copies: {instance.copies}"]
    lines.append("nodes:")
    for number, node in enumerate(instance.nodes):
        up, down = node.up_bytes_per_second * 8 / 1e6, node.down_bytes_per_second * 8 / 1e6
        lines.append(
            f"  - {{name: n{number}, cores: {node.cores}, speed: {node.speed:g},"
            f" up: {up:g}Mbps, down: {down:g}Mbps}}"
        )
    path.write_text("\n".join(lines) + "\n")
