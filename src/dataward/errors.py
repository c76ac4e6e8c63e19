"""Every error a caller may want to catch, in one tree.

DatawardError
├── WorkflowError              the workflow itself is wrong
│   ├── EmptyWorkflowError
│   ├── DuplicateTaskError
│   ├── UnknownParentError
│   ├── CycleError
│   ├── TwoProducersError
│   ├── SelfFeedingError
│   ├── MissingInputError
│   ├── NoCommandError
│   ├── BadNameError
│   └── BadValueError
├── FormatError                a file cannot be read: a workflow, a platform, an event list
├── SettingError               an option or a parameter makes no sense
├── DeadlineRefusedError       a workflow cannot be promised by its deadline
├── OutputError                a result cannot be written where it was asked for
├── ProcessDiedError           the process that made a function call died
│   └── TimeLimitError         it was ended, since the call took too long
├── ValueLostError             the node that alone had the result of a function call is gone
└── OwnFaultError              dataward itself is at fault, whatever it was given

Each error keeps its facts as attributes and makes its message from them. Names from outside are
shown with ``repr``, so that control characters in a hostile name never reach the terminal.
"""

from collections.abc import Mapping, Sequence


class DatawardError(Exception):
    """Anything dataward can blame on its input or its surroundings."""


class WorkflowError(DatawardError):
    """The workflow contradicts itself or lacks something, so it cannot be used as it stands."""


class EmptyWorkflowError(WorkflowError):
    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        super().__init__(f"workflow {workflow!r} has no tasks")


class DuplicateTaskError(WorkflowError):
    def __init__(self, task: str) -> None:
        self.task = task
        super().__init__(f"two tasks have the id {task!r}; every task needs its own")


class UnknownParentError(WorkflowError):
    """An edge names a task that does not exist: ``unknown``, which is the parent by default."""

    def __init__(self, task: str, parent: str, unknown: str = "") -> None:
        self.task = task
        self.parent = parent
        self.unknown = unknown or parent
        super().__init__(
            f"task {task!r} comes after {parent!r}, but there is no task {self.unknown!r}"
        )


class CycleError(WorkflowError):
    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tuple(tasks)
        shown = [repr(task) for task in self.tasks]
        if len(shown) > 12:
            shown = [*shown[:6], f"... {len(shown) - 11} more ...", *shown[-5:]]
        super().__init__("workflow has a cycle: " + " -> ".join([*shown, shown[0]]))


class TwoProducersError(WorkflowError):
    def __init__(self, file: str, tasks: Sequence[str]) -> None:
        self.file = file
        self.tasks = tuple(tasks)
        writers = " and ".join(repr(task) for task in self.tasks[:3])
        super().__init__(
            f"file {file!r} is written by {len(self.tasks)} tasks ({writers}); "
            "give each output its own name"
        )


class SelfFeedingError(WorkflowError):
    def __init__(self, task: str, file: str) -> None:
        self.task = task
        self.file = file
        super().__init__(
            f"task {task!r} both reads and writes file {file!r}; write the result under a new name"
        )


class MissingInputError(WorkflowError):
    """Files that no task writes are not there; ``readers`` has a task that reads each."""

    def __init__(self, readers: Mapping[str, str], looked_in: Sequence[str] = ()) -> None:
        self.readers = dict(readers)
        self.looked_in = tuple(looked_in)
        shown = [f"{file!r} (read by {task!r})" for file, task in list(readers.items())[:10]]
        if len(readers) > len(shown):
            shown.append(f"{len(readers) - len(shown)} more")
        where = f"; looked in {' and '.join(looked_in)}" if looked_in else ""
        what = "an input is" if len(readers) == 1 else f"{len(readers)} inputs are"
        super().__init__(f"{what} missing, which no task writes: {', '.join(shown)}{where}")


class NoCommandError(WorkflowError):
    def __init__(self, task: str) -> None:
        self.task = task
        super().__init__(f"task {task!r} has no command, so there is nothing to run")


class BadNameError(WorkflowError):
    def __init__(self, what: str, name: str, problem: str) -> None:
        self.what = what
        self.name = name
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(f"{what} name {shown!r} {problem}")


class BadValueError(WorkflowError):
    def __init__(self, owner: str, quantity: str, value: object, problem: str) -> None:
        self.owner = owner
        self.quantity = quantity
        self.value = value
        super().__init__(f"{owner} has {quantity} {value!r}, {problem}")


class FormatError(DatawardError):
    """A file does not follow its format; ``place`` is a line of the file or a JSON path in it."""

    def __init__(self, source: str, problem: str, *, place: str = "", remedy: str = "") -> None:
        self.source = source
        self.problem = problem
        self.place = place
        self.remedy = remedy
        where = f"{source}, {place}" if place else source
        super().__init__(f"{where}: {problem}" + (f"; {remedy}" if remedy else ""))


class SettingError(DatawardError, ValueError):
    """An option or a parameter makes no sense; the message names it and says what is accepted."""


class DeadlineRefusedError(DatawardError):
    """A workflow cannot be promised by its deadline, and nothing of it was run.

    ``earliest_seconds`` is the earliest that could be promised, from when it was asked; infinite if
    run times of the types ``unknown`` are not known. ``path_seconds`` is the length of the critical
    path, if the deadline leaves less time than that; else 0.
    """

    def __init__(
        self,
        sentence: str,
        earliest_seconds: float,
        path_seconds: float = 0.0,
        unknown: Sequence[str] = (),
    ) -> None:
        self.earliest_seconds = earliest_seconds
        self.path_seconds = path_seconds
        self.unknown = tuple(unknown)
        super().__init__(sentence)


class OutputError(DatawardError):
    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"cannot write {path}: {problem}")


class ProcessDiedError(DatawardError):
    """The process that made a function call died with it."""

    def __init__(self, function: str, how: str) -> None:
        self.function = function
        self.how = how
        super().__init__(f"the call of {function} failed: {how}")

    def __reduce__(self) -> tuple[type["ProcessDiedError"], tuple[str, str]]:
        return type(self), (self.function, self.how)


class TimeLimitError(ProcessDiedError, TimeoutError):
    """A function call ran longer than it may, and was ended with its process."""


class ValueLostError(DatawardError):
    """The large result of a function call was kept by a node of a cluster, which is gone."""

    def __init__(self, function: str, how: str) -> None:
        self.function = function
        self.how = how
        super().__init__(f"the result of {function} is lost: {how}")

    def __reduce__(self) -> tuple[type["ValueLostError"], tuple[str, str]]:
        return type(self), (self.function, self.how)


class OwnFaultError(DatawardError):
    """dataward did what it must never do; ``what`` is a sentence that helps to find out why."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}; this is a fault of dataward: please report it")
