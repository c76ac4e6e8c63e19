"""Whether a task that ran before need not run again, decided when it is about to begin.

By then all that it reads has been made, so its inputs can be compared by content. A task that ran
again and wrote the same makes none of its readers run. What could be known before the run began was
decided then (`runs/deciding.py`): a task that need not run whatever the others write never comes
here, and one that perhaps need not comes with what it did before, `TaskSpec.earlier`.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from dataward.model.answers import Begun
from dataward.model.operations import Earlier, InputFile, OutputFile
from dataward.model.workflow import FileId
from dataward.node.depot import Depot, as_committed


class Recalled(NamedTuple):
    """``due`` says why the task must run, as a clause; if it is empty, ``outputs`` are its outputs.

    Of these, the ``absent`` are gone from the disk. Nobody makes them again until a task needs one:
    then that task has lost an input, and this one is reopened and runs.
    """

    due: str
    outputs: tuple[OutputFile, ...] = ()
    absent: tuple[FileId, ...] = ()


def recall(begun: Begun, depot: Depot) -> Recalled | None:
    """Whether what the task wrote in an earlier run counts again. None if it must run in any case.

    It counts if the task would read just what it read then, and if the outputs that are wanted for
    their own sake are still there. The depot then holds the outputs found, as if they were just
    written. A task that is made again, for an output that was lost, must run.
    """
    earlier = begun.spec.earlier
    if earlier is None or begun.generation > 1:
        return None
    change = input_changed(earlier, as_committed(begun.spec.inputs, begun.copies))
    if change:
        return Recalled(change)
    found = depot.recall(begun.spec.id, earlier.outputs)
    loss = wanted_gone(earlier, found)
    if loss:
        depot.discard_outputs(found)
        return Recalled(loss)
    absent = tuple(file.id for file in earlier.outputs if file not in found)
    return Recalled("", earlier.outputs, absent)


def input_changed(earlier: Earlier, inputs: Sequence[InputFile]) -> str:
    """Which input is not what it was, as a clause; "" if all are."""
    before = dict(earlier.inputs)
    for file in inputs:
        if before.get(file.id) != file.digest:
            return f"its input {file.id!r} has changed"
    return ""


def wanted_gone(earlier: Earlier, found: Collection[OutputFile]) -> str:
    """Which output must be made again for its own sake, as a clause; "" if none must."""
    there = {file.id for file in found}
    for file in earlier.wanted:
        if file not in there:
            return f"its output {file!r} is gone"
    return ""
