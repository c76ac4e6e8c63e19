"""Workflows whose tasks sleep and then write files: they hardly need a core.

They are of the shapes of the generated applications, with run times and sizes scaled to a mean.
"""

from collections.abc import Callable, Sequence

from dataward import WorkflowBuilder
from dataward.generate import generate
from dataward.model.workflow import Workflow


def sleeping(
    shape: str,
    tasks: int,
    rate: float,
    mean_seconds: float = 0.7,
    beyond: Callable[[Sequence[str]], float] = lambda command: 0.0,
) -> Workflow:
    """The shape with tasks that sleep; at this rate, in bytes a second, files take half as long.

    ``beyond`` says how long a task takes besides its sleep, given its command without the sleep.
    """
    drawn = generate(shape, tasks, seed=4)
    made = drawn.producers.degrees()
    seconds = drawn.runtime_seconds / drawn.runtime_seconds.mean() * mean_seconds
    sizes = drawn.size_bytes / max(drawn.size_bytes[made > 0].mean(), 1) * rate * mean_seconds / 2
    wf = WorkflowBuilder(f"{shape}-asleep")
    for file, id in enumerate(drawn.file_ids):
        if made[file]:
            wf.file(id, int(min(max(sizes[file], 1), 3 * rate)))
    for index, id in enumerate(drawn.task_ids):
        inputs = [drawn.file_ids[f] for f in drawn.inputs.row(index).tolist() if made[f]]
        outputs = drawn.outputs.row(index).tolist()
        took = round(float(min(max(seconds[index], mean_seconds / 14), 6 * mean_seconds)), 2)
        writes = [
            f"head -c {int(min(max(sizes[f], 1), 3 * rate))} /dev/zero | "
            f"tr '\\0' '{f % 10}' > {drawn.file_ids[f]}"
            for f in outputs
        ]
        wf.task(
            id,
            name=drawn.task_names[index],
            command=("sh", "-c", "; ".join([f"sleep {took}", *writes])),
            inputs=inputs,
            outputs=[drawn.file_ids[f] for f in outputs],
            runtime_seconds=took + beyond(("sh", "-c", "; ".join(["true", *writes]))),
        )
    return wf.build()
