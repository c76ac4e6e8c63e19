"""The one way to make a workflow, for people who write one in Python and for every file reader.

Mistakes are reported where they are made if possible (a bad size, a task id used twice), otherwise
by ``build`` (an unknown parent, a cycle).
"""

import math
import re
import shlex
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from dataward.errors import (
    BadValueError,
    DuplicateTaskError,
    EmptyWorkflowError,
    UnknownParentError,
    WorkflowError,
)
from dataward.model.adjacency import Adjacency, Indices
from dataward.model.directories import is_directory
from dataward.model.edges import Edges
from dataward.model.file_edges import (
    check_order,
    implied_parents,
    self_feeding,
    with_file_edges,
)
from dataward.model.function_calls import CALL, CallResult, call_command, name_of_call
from dataward.model.launch import Launch, launch_of
from dataward.model.names import check_name, stays_inside
from dataward.model.workflow import Command, FileId, TaskId, Workflow

# An exbibyte in one file or three thousand years in one task is a unit mistake, not a workload.
SIZE_BYTES_MAX = 2**60
RUNTIME_SECONDS_MAX = 1e11
CORES_MAX = 1_000_000
RETRIES_MAX = 1_000_000


class WorkflowBuilder:
    """Collects tasks and files, then builds an immutable ``Workflow``.

    >>> wf = WorkflowBuilder("sorting")
    >>> split = wf.command("split -n 2 {inputs}", inputs=["all"], outputs=["xaa", "xab"])
    >>> ends = wf.command("sort {inputs} > {outputs}", inputs=["xaa", "xab"], outputs=["sorted"])
    >>> len(wf.build())
    2
    """

    def __init__(self, name: str = "workflow") -> None:
        check_name("workflow", name)
        self.name = name
        self._warnings: list[str] = []
        self._is_measured = False
        # A task gets its number when first mentioned, which may be as another task's parent.
        # ``task`` defines it, and a workflow lists its tasks in the order of definition.
        self._number: dict[str, int] = {}
        self._defined = array("i")
        self._place_of = array("i")
        self._task_names: list[str] = []
        self._commands: list[Command | None] = []
        self._launches: dict[int, Launch] = {}
        self._runtimes = array("d")
        self._cores = array("i")
        self._memory = array("q")
        self._retries = array("i")
        self._file_number: dict[str, int] = {}
        self._sizes = array("q")
        self._locations: dict[FileId, str] = {}
        self._resized: dict[int, tuple[int, int]] = {}  # the first two sizes that differ
        self._inputs = (array("i"), array("i"))
        self._outputs = (array("i"), array("i"))
        self._after = (array("i"), array("i"))

    def __len__(self) -> int:
        return len(self._defined)

    def mark_measured(self) -> None:
        """Say that run times and memory were measured in a run, so that memory is no limit."""
        self._is_measured = True

    def warn(self, sentence: str) -> None:
        """Add a sentence about something odd in the source to the workflow's ``warnings``."""
        self._warnings.append(sentence)

    def file(self, id: str, size_bytes: int = -1, *, path: str = "") -> FileId:
        """Declare a file; if given several sizes, the largest is kept: a plan must allow for it.

        ``path`` says where a file is that no task writes, if it is not beside the workflow.
        """
        number = self._file_number.get(id)
        if number is None:
            check_name("file", id)
            number = self._file_number[id] = len(self._sizes)
            self._sizes.append(-1)
        if size_bytes != -1:
            self._set_size(number, id, size_bytes)
        if path:
            check_name("path of a file", path)
            self._locations[FileId(id)] = path
        return FileId(id)

    def _set_size(self, number: int, id: str, size_bytes: int) -> None:
        if not 0 <= size_bytes <= SIZE_BYTES_MAX:
            raise BadValueError(
                f"file {id!r}", "size", size_bytes, f"not between 0 and {SIZE_BYTES_MAX} bytes"
            )
        known = self._sizes[number]
        if known != -1 and known != size_bytes:
            self._resized.setdefault(number, (known, size_bytes))
        if size_bytes > known:
            self._sizes[number] = size_bytes

    def task(
        self,
        id: str,
        *,
        name: str = "",
        command: Sequence[str] | None = None,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        after: Iterable[str] = (),
        runtime_seconds: float = 0.0,
        cores: int = 1,
        memory_bytes: int = 0,
        retries: int | None = None,
        launch: Launch | None = None,
    ) -> TaskId:
        """Add a task. ``after`` may name tasks that are added later.

        The files of a ``launch`` count as inputs and outputs, whether or not they are among those.
        """
        # Text is a sequence, too: of its characters, each of which would be a name or a word.
        if str in (type(inputs), type(outputs), type(after), type(command)):
            _refuse_text(id, inputs=inputs, outputs=outputs, after=after, command=command)
        number = self._mention(id)
        if self._place_of[number] >= 0:
            raise DuplicateTaskError(id)
        if name and name is not id:
            check_name("task", name)
        if not (
            0.0 <= runtime_seconds <= RUNTIME_SECONDS_MAX
            and 1 <= cores <= CORES_MAX
            and 0 <= memory_bytes <= SIZE_BYTES_MAX
        ):
            _refuse_needs(id, runtime_seconds, cores, memory_bytes)
        if retries is not None and not 0 <= retries <= RETRIES_MAX:
            raise BadValueError(f"task {id!r}", "retries", retries, f"not 0 to {RETRIES_MAX}")
        if launch is not None:
            _check_launch(id, launch, command)
            inputs = [*inputs, launch.stdin] if launch.stdin else inputs
            outputs = [*outputs, *launch.printed]
        place = self._place_of[number] = len(self._defined)
        if launch is not None:
            self._launches[place] = launch
        self._defined.append(number)
        self._task_names.append(name or id)
        self._commands.append(None if command is None else tuple(command))
        self._runtimes.append(runtime_seconds)
        self._cores.append(cores)
        self._memory.append(memory_bytes)
        self._retries.append(-1 if retries is None else retries)
        self._join(place, inputs, self._inputs)
        self._join(place, outputs, self._outputs)
        tasks, parents = self._after
        for parent in after:
            tasks.append(place)
            parents.append(self._mention(parent))
        return TaskId(id)

    def _mention(self, task: str) -> int:
        number = self._number.get(task)
        if number is None:
            check_name("task", task)
            number = self._number[task] = len(self._place_of)
            self._place_of.append(-1)
        return number

    def _join(
        self, place: int, files: Iterable[str], to: tuple["array[int]", "array[int]"]
    ) -> None:
        tasks, numbers = to
        known = self._file_number
        for file in dict.fromkeys(files):
            number = known.get(file)
            if number is None:
                self.file(file)
                number = known[file]
            tasks.append(place)
            numbers.append(number)

    def order(self, parent: str, child: str) -> None:
        """Declare that one task comes before another. The child must already be added."""
        place = self._place_of[self._mention(child)]
        if place < 0:
            raise UnknownParentError(child, parent, unknown=child)
        self._after[0].append(place)
        self._after[1].append(self._mention(parent))

    def command(
        self,
        command: str | Sequence[str],
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        after: Iterable[str] = (),
        id: str = "",
        name: str = "",
        runtime_seconds: float = 0.0,
        cores: int = 1,
        memory_bytes: int = 0,
        retries: int | None = None,
        stdin: str = "",
        stdout: str = "",
        stderr: str = "",
        env: Mapping[str, str] | None = None,
    ) -> TaskId:
        """Add a task that runs a command, given as a line for the shell or as a list of words.

        ``memory_bytes`` is what the command and its children may use: they are ended if they use
        more, and a node runs at a time only what its memory has room for. 0 is no limit.

        ``{inputs}``, ``{outputs}``, ``{inputs[0]}`` and ``{outputs[0]}`` stand for the file names;
        every other brace is left alone, so ``awk '{print $1}'`` needs no escaping.

        ``stdin`` is a file that the command reads from; what it prints goes to the files ``stdout``
        and ``stderr``, which may be the same. They are an input and outputs too, without being
        listed as such. ``env`` has variables that are set besides those of the caller.
        """
        words = expand(command, inputs, outputs)
        program = (command.split() or [""])[0] if isinstance(command, str) else words[0]
        name = name or program.rsplit("/", 1)[-1] or "task"
        return self.task(
            id or f"{name}-{len(self) + 1}",
            name=name,
            command=words,
            inputs=inputs,
            outputs=outputs,
            after=after,
            runtime_seconds=runtime_seconds,
            cores=cores,
            memory_bytes=memory_bytes,
            retries=retries,
            launch=launch_of(stdin, stdout, stderr, env),
        )

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        after: Iterable[str] = (),
        id: str = "",
        cores: int = 1,
        memory_bytes: int = 0,
        retries: int | None = None,
        **kwargs: Any,
    ) -> CallResult:
        """Add a task that calls a Python function with these arguments.

        The function is called in the task's own directory, where it finds ``inputs`` and writes
        ``outputs``. Its return value is pickled into a file. The returned `CallResult` may be an
        argument of another call, at any depth, which then receives the value; its ``file`` may be
        an input of any task. The task runs again when the function's code or an argument has
        changed. If the function takes an argument named like a parameter of ``call`` (``inputs``,
        ``id``, ...), bind it with `functools.partial`.
        """
        command, results = call_command(function, args, kwargs)
        name = name_of_call(function)
        task = id or f"{name}-{len(self) + 1}"
        file = f"{task}.pickle"
        self.task(
            task,
            name=name,
            command=command,
            inputs=[*inputs, *(result.file for result in results)],
            outputs=[file, *outputs],
            after=after,
            cores=cores,
            memory_bytes=memory_bytes,
            retries=retries,
        )
        return CallResult(TaskId(task), FileId(file))

    def build(self, edges: Edges = Edges.BOTH) -> Workflow:
        """The workflow, checked.

        With ``Edges.DECLARED``, as for a trace, the declared order stands, and a warning tells
        where the files imply another. With the other two, files decide the order, so a file with
        two producers is an error.
        """
        if not self._defined:
            raise EmptyWorkflowError(self.name)
        count = len(self._defined)
        ids = list(self._number)
        task_ids = tuple(TaskId(ids[number]) for number in self._defined)
        declared = Workflow(
            name=self.name,
            task_ids=task_ids,
            task_names=tuple(self._task_names),
            commands=tuple(self._commands),
            runtime_seconds=np.array(self._runtimes, dtype=np.float64),
            cores=_int32(self._cores),
            memory_bytes=np.array(self._memory, dtype=np.int64),
            retries=_int32(self._retries),
            file_ids=tuple(map(FileId, self._file_number)),
            size_bytes=np.maximum(np.array(self._sizes, dtype=np.int64), 0),
            inputs=Adjacency.from_pairs(*_pair(self._inputs), count),
            outputs=Adjacency.from_pairs(*_pair(self._outputs), count),
            parents=self._declared_edges(ids, task_ids, edges),
            launches=dict(self._launches),
            locations=dict(self._locations),
        )
        check_order(declared)
        self._warn_about_files(declared.file_ids)
        built = self._trace(declared) if edges is Edges.DECLARED else with_file_edges(declared)
        return replace(built, warnings=tuple(self._warnings), is_measured=self._is_measured)

    def _declared_edges(
        self, ids: Sequence[str], task_ids: Sequence[TaskId], edges: Edges
    ) -> Adjacency:
        tasks, numbers = _pair(self._after)
        parents = _int32(self._place_of)[numbers]
        if (parents < 0).any():
            at = int(np.argmax(parents < 0))
            raise UnknownParentError(task_ids[int(tasks[at])], ids[int(numbers[at])])
        if edges is Edges.FILES:
            tasks, parents = tasks[:0], parents[:0]
        return Adjacency.from_edges(tasks, parents, len(task_ids))

    def _trace(self, declared: Workflow) -> Workflow:
        """The workflow in its declared order, with warnings where its files say something else.

        If it declares no order at all, that of its files is meant, where they have one.
        """
        self._warn_about_writers(declared)
        implied = implied_parents(declared)
        if not declared.edge_count and implied.targets.size:
            with suppress(WorkflowError):
                ordered = with_file_edges(declared)
                self.warn(f"it declares no edges; the {ordered.edge_count} of its files are used")
                return ordered
        self._warn_about_edges(declared.parents, implied)
        return declared

    def _warn_about_writers(self, workflow: Workflow) -> None:
        shared = np.flatnonzero(workflow.producers.degrees() > 1)
        if shared.size:
            first = int(shared[0])
            self.warn(
                f"{_some(shared.size, 'file has', 'files have')} several producers "
                f"({workflow.file_ids[first]!r} has "
                f"{workflow.producers.row(first).size}); such a workflow can be studied but not run"
            )
        loops = self_feeding(workflow)
        if loops:
            task, file = loops[0]
            tasks = len({task for task, _ in loops})
            self.warn(
                f"{_some(tasks, 'task reads and writes', 'tasks read and write')} the same file "
                f"(task {workflow.task_ids[task]!r}, file {workflow.file_ids[file]!r}); "
                "such a workflow can be studied but not run"
            )

    def _warn_about_edges(self, by_author: Adjacency, by_files: Adjacency) -> None:
        count = len(by_author)
        authored = by_author.owners().astype(np.int64) * count + by_author.targets
        filed = by_files.owners().astype(np.int64) * count + by_files.targets
        only_filed = np.setdiff1d(filed, authored, assume_unique=True).size
        only_authored = np.setdiff1d(authored, filed, assume_unique=True).size
        if only_filed:
            self.warn(
                f"its files imply {only_filed} edges that it does not declare; they count when it "
                f"is run, but otherwise only the {authored.size} declared ones do"
            )
        if only_authored and filed.size:
            self.warn(
                f"{only_authored} of {authored.size} declared edges have no file to explain them"
            )

    def _warn_about_files(self, file_ids: Sequence[FileId]) -> None:
        if self._resized:
            number, (first, second) = next(iter(self._resized.items()))
            self.warn(
                f"{_some(len(self._resized), 'file has', 'files have')} several sizes "
                f"({file_ids[number]!r}: {first} and {second} bytes, or others); "
                "the largest is used"
            )
        outside = [file for file in file_ids if not stays_inside(file)]
        if outside:
            which = _some(
                len(outside),
                "file name is not a plain relative path",
                "file names are not plain relative paths",
            )
            self.warn(f"{which} ({outside[0]!r}); such a workflow can be studied but not run")


def _some(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def expand(command: str | Sequence[str], inputs: Sequence[str], outputs: Sequence[str]) -> Command:
    """A command with its file names filled in, as the words to execute.

    A line goes to the shell, with names quoted; in a list, a word that is just ``{inputs}``
    becomes as many words as there are inputs.
    """
    files = {"inputs": list(inputs), "outputs": list(outputs)}
    if isinstance(command, str):
        return (
            "sh",
            "-c",
            _fill(command, {key: [*map(shlex.quote, v)] for key, v in files.items()}),
        )
    words: list[str] = []
    for word in command:
        if word in ("{inputs}", "{outputs}"):
            words.extend(files[word[1:-1]])
        else:
            words.append(_fill(word, files))
    if not words:
        raise BadValueError("a task", "command", command, "which is empty")
    return tuple(words)


_PLACEHOLDER = re.compile(r"\{(inputs|outputs)(?:\[(\d+)\])?\}")


def _fill(text: str, files: dict[str, list[str]]) -> str:
    def names(match: re.Match[str]) -> str:
        among = files[match[1]]
        if match[2] is None:
            return " ".join(among)
        if int(match[2]) >= len(among):
            raise BadValueError(
                f"command {text!r}", "placeholder", match[0], f"but it has {len(among)} {match[1]}"
            )
        return among[int(match[2])]

    return _PLACEHOLDER.sub(names, text)


def _refuse_text(id: str, **given: object) -> NoReturn:
    name, text = next((name, each) for name, each in given.items() if isinstance(each, str))
    raise BadValueError(f"task {id!r}", name, text, f"which is no list: write [{text!r}]")


def _refuse_needs(id: str, runtime_seconds: float, cores: int, memory_bytes: int) -> None:
    owner = f"task {id!r}"
    if math.isnan(runtime_seconds) or not 0.0 <= runtime_seconds <= RUNTIME_SECONDS_MAX:
        problem = f"not between 0 and {RUNTIME_SECONDS_MAX:g} seconds"
        raise BadValueError(owner, "run time", runtime_seconds, problem)
    if not 1 <= cores <= CORES_MAX:
        raise BadValueError(owner, "cores", cores, f"not between 1 and {CORES_MAX}")
    raise BadValueError(owner, "memory", memory_bytes, f"not between 0 and {SIZE_BYTES_MAX} bytes")


def _check_launch(id: str, launch: Launch, command: Sequence[str] | None) -> None:
    owner = f"task {id!r}"
    if command and command[0] == CALL:
        problem = "but it calls a function, which has neither streams nor variables of its own"
        raise BadValueError(owner, "launch", tuple(launch), problem)
    for file in launch[:3]:
        if is_directory(file):
            raise BadValueError(owner, "stream", file, "but a directory cannot be one")
    for name, value in launch.env:
        if not name or "=" in name or "\0" in name + value or not _is_text(name + value):
            problem = "which cannot be a variable of its environment"
            raise BadValueError(owner, "variable", f"{name}={value}" if name else name, problem)


def _is_text(text: str) -> bool:
    """Whether the text can be written to a file; a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _int32(numbers: "array[int]") -> Indices:
    return np.array(numbers, dtype=np.int32)


def _pair(columns: tuple["array[int]", "array[int]"]) -> tuple[Indices, Indices]:
    return _int32(columns[0]), _int32(columns[1])
