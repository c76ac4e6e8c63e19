"""Programs that tasks run, as inputs of those tasks: when one changes, they are due."""

import os
import shutil
from dataclasses import replace

import numpy as np

from dataward.model.adjacency import Adjacency
from dataward.model.function_calls import CALL
from dataward.model.workflow import FileId, Workflow

PLACE = ".programs"  # where a task finds its programs in its directory, should it look for them


def with_programs(workflow: Workflow) -> Workflow:
    """The workflow whose tasks also read the programs that they run.

    These are a command's first word, looked for as the shell would, and every other word that is
    the absolute path of a file, as a script behind its interpreter. A line for the shell is one
    word: what it runs is not seen.
    """
    number: dict[str, int] = {}  # of each program among the files
    tasks: list[int] = []
    files: list[int] = []
    for task, command in enumerate(workflow.commands):
        if not command or command[0] == CALL:
            continue
        for path in _programs(command):
            tasks.append(task)
            files.append(number.setdefault(path, len(workflow.file_ids) + len(number)))
    if not number:
        return workflow
    names = [FileId(f"{PLACE}/{n}-{os.path.basename(path)}") for n, path in enumerate(number)]
    sizes = [os.path.getsize(path) for path in number]
    inputs = Adjacency.from_pairs(
        np.concatenate([workflow.inputs.owners(), np.array(tasks, np.int32)]),
        np.concatenate([workflow.inputs.targets, np.array(files, np.int32)]),
        len(workflow),
    )
    return replace(
        workflow,
        file_ids=(*workflow.file_ids, *names),
        size_bytes=np.concatenate([workflow.size_bytes, np.array(sizes, np.int64)]),
        inputs=inputs,
        locations={**workflow.locations, **dict(zip(names, number, strict=True))},
    )


def _programs(command: tuple[str, ...]) -> list[str]:
    first = shutil.which(command[0])
    others = [word for word in command[1:] if os.path.isabs(word) and os.path.isfile(word)]
    return list(dict.fromkeys([*([os.path.abspath(first)] if first else []), *others]))
