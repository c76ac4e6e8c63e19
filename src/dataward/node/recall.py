"""Whether a task that ran before need not run again, decided when it is about to begin.

By then all that it reads has been made, so its inputs can be compared by content. A task that ran
again and wrote the same makes none of its readers run.
"""

from collections.abc import Collection, Sequence

from dataward.model.operations import Earlier, InputFile, OutputFile


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
