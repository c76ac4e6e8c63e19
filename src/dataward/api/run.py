"""Runs a workflow on this machine: what ``dataward run`` does, from Python.

The node and its store are loaded in `begin`, while the processes that run tasks are starting.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataward.errors import SettingError
from dataward.formats.read import read_workflow
from dataward.live.fitting import check_settable, fitted, why_useless
from dataward.live.runner_settings import RunnerSettings
from dataward.live.slice import Slice
from dataward.model.builder import WorkflowBuilder
from dataward.model.deadline import WantedDeadline, wanted_deadline
from dataward.model.events import Event
from dataward.model.parameters import with_parameters
from dataward.model.settings import change_settings, check_names, is_setting_of, values_of
from dataward.model.workflow import Workflow
from dataward.model.wrapping import wrapped
from dataward.plan.adage import check_width
from dataward.runs.belonging import check_belonging
from dataward.runs.keeping import parse_keep
from dataward.runs.launching import launched
from dataward.runs.preparation import stem_of
from dataward.runs.programs import with_programs
from dataward.runs.run_directory import RunDirectory
from dataward.runs.run_options import RunOptions
from dataward.runs.selection import asked_for
from dataward.strategies.choosing import changed_strategy, found_strategy, settings_of
from dataward.strategies.registry import DEFAULT, KEEPING, check_keeping
from dataward.strategies.strategy import Strategy

BEST = "best"  # the strategy that the simulator finds best

if TYPE_CHECKING:
    from dataward.api.report import RunReport
    from dataward.runs.deadline_answer import DeadlineAnswer
    from dataward.runs.preparation import Preparer
    from dataward.runs.recorded_run import RunEnding
    from dataward.runs.watcher import Watcher


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that can be asked of a run; each has the meaning of the option of that name."""

    targets: Sequence[str] = ()
    until: Sequence[str] = ()
    slots: int = 0  # 0: as many as the machine has cores
    nodes: int = 1
    out: Path | None = None
    keep: str = "auto"
    force: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    resume: bool = False
    retries: int = 0
    time_limit_seconds: float = 0.0  # 0: no limit
    wrap: Sequence[str] = ()
    track_programs: bool = False
    strategy: str | Strategy = DEFAULT  # or "best": the simulator is asked first
    settings: Sequence[str] = ()  # as "name=value"
    # Text as of --deadline, or seconds.
    deadline: str | float | datetime | WantedDeadline | None = None
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class RunToDo:
    """A run that could begin: everything about it has been checked."""

    workflow: Workflow
    source: Path
    directory: RunDirectory
    options: RunOptions
    resume: bool
    choice: str = ""  # why it has its strategy, if that was to be the best
    answer: "DeadlineAnswer | None" = None  # to its deadline, if it has one
    preparer: "Preparer | None" = None  # which has looked at the inputs already

    @property
    def may_begin(self) -> bool:
        """Whether it has no deadline, or one that was accepted, or runs in any case."""
        answer = self.answer
        return answer is None or answer.accepted is not None or answer.wanted.best_effort


def run(workflow: Workflow | WorkflowBuilder | str | Path, **asked: Any) -> "RunReport":
    """Run a workflow on this machine, and tell what it came to.

    ``workflow`` is a workflow, or its file. What may be asked besides are the fields of
    `RunRequest`, with the meaning of the options of ``dataward run``: ``targets``, ``slots``,
    ``nodes``, ``out``, ``keep``, ``force``, ``parameters`` and so on. Inputs are looked for beside
    the file, or in the current directory if there is none. A task that fails does not raise: the
    report's state is FAILED, and it names the task. With a ``deadline`` that cannot be promised,
    nothing is run, and a DeadlineRefusedError tells the earliest that could be.

    >>> wf = WorkflowBuilder("hello")
    >>> task = wf.command("echo hello > {outputs}", outputs=["greeting"])
    >>> report = run(wf, out="hello.run")  # doctest: +SKIP
    >>> report.outputs["greeting"].read_text()  # doctest: +SKIP
    'hello\\n'
    """
    known = RunRequest.__dataclass_fields__
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise SettingError(f"run takes no {unknown[0]!r}; it takes {', '.join(known)}")
    if isinstance(asked.get("out"), str):
        asked["out"] = Path(asked["out"])
    request = RunRequest(**asked)
    read, source = _read(workflow)
    todo = prepared(read, source, request)
    if todo.answer is not None and not todo.may_begin:
        raise todo.answer.error()
    return replace(report_of(begin(todo)), answer=todo.answer)


def _read(workflow: Workflow | WorkflowBuilder | str | Path) -> tuple[Workflow, Path]:
    if isinstance(workflow, WorkflowBuilder):
        workflow = workflow.build()
    if isinstance(workflow, Workflow):
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in workflow.name)
        return workflow, Path(f"{name.strip('.') or 'workflow'}.json")
    return read_workflow(Path(workflow)), Path(workflow)


def prepared(workflow: Workflow, source: Path, request: RunRequest) -> RunToDo:
    """The run that was asked for, with everything checked. Raises SettingError, WorkflowError."""
    workflow = with_parameters(workflow, request.parameters)
    options = _options(workflow, request)
    workflow = wrapped(workflow, request.wrap)
    if request.track_programs:
        workflow = with_programs(workflow)
    workflow, asked = asked_for(workflow, source, request.targets, request.until, request.force)
    check_width([options.machine.slots], workflow)
    directory = RunDirectory(request.out or Path(f"{stem_of(source)}.run"))
    if request.resume and not directory.exists():
        raise SettingError(f"{directory.path} holds no run to resume; run without --resume")
    if not request.replace:
        check_belonging(directory, workflow, source)
    options = replace(options, request=asked)
    todo = RunToDo(workflow, source, directory, options, request.resume)
    wanted = wanted_deadline(request.deadline, request.best_effort, datetime.now().astimezone())
    if wanted is not None:
        return _with_promise(todo, request, wanted)
    return _with_best_strategy(todo) if request.strategy == BEST else todo


def _with_promise(todo: RunToDo, request: RunRequest, wanted: WantedDeadline) -> RunToDo:
    """The run with the answer to its deadline, and a strategy that keeps what is promised."""
    from dataward.live.promise_book import PromiseBook, book_directory
    from dataward.runs.admitting import answer_for
    from dataward.runs.preparation import Preparer

    if request.strategy != DEFAULT:
        check_keeping(str(request.strategy))
    options = todo.options
    preparer = Preparer(
        todo.workflow,
        todo.source,
        todo.directory,
        keep_all=options.keep.everything,
        request=options.request,
    )
    for _ in preparer.look_at_inputs():
        pass
    book = PromiseBook(book_directory(os.environ))
    answer = answer_for(todo.workflow, preparer, todo.directory, options.machine, wanted, book)
    options = replace(options, deadline=wanted, promise=answer.accepted)
    if answer.accepted is None:
        book.close()
    else:
        options = replace(options, book=book)
    if answer.accepted is not None and request.strategy != KEEPING:
        chosen = fitted(found_strategy(KEEPING), options.machine)
        options = replace(options, strategy=chosen)
    return replace(todo, options=options, answer=answer, preparer=preparer)


def _with_best_strategy(todo: RunToDo) -> RunToDo:
    """The run with the strategy that the simulator finds best. Loads the simulator."""
    from dataward.runs.best_strategy import best_strategy_for

    options = todo.options
    choice = best_strategy_for(todo.workflow, todo.source, todo.directory, options)
    chosen = fitted(found_strategy(choice.name), options.machine)
    return replace(todo, options=replace(options, strategy=chosen), choice=choice.sentence)


def _options(workflow: Workflow, request: RunRequest) -> RunOptions:
    changes = list(request.settings)
    machine = Slice(request.nodes, request.slots or os.cpu_count() or 1)
    runner = RunnerSettings(time_limit_seconds=request.time_limit_seconds)
    named = found_strategy(DEFAULT if request.strategy == BEST else request.strategy)
    fitting = fitted(named, machine)
    known = {**values_of(runner), **settings_of(named), **settings_of(fitting)}
    useless = [name for name in known if why_useless(name, named, machine)]
    check_names(changes, known, useless)
    for_runner = [change for change in changes if is_setting_of(RunnerSettings, change)]
    for_node = [change for change in changes if change not in for_runner]
    if for_node and request.strategy == BEST:
        raise SettingError(
            f"--strategy {BEST} tries strategies as they are: name one to set {for_node[0]}"
        )
    for change in for_node:
        check_settable(change.partition("=")[0], named, machine)
    if workflow.is_measured:
        runner = runner.for_measured()
    return RunOptions(
        machine=machine,
        strategy=changed_strategy(fitting, for_node),
        runner=change_settings(runner, for_runner),
        retries=request.retries,
        keep=parse_keep(request.keep),
    )


def begin(
    todo: RunToDo, watcher: "Watcher | None" = None, events: Path | None = None
) -> "RunEnding":
    """Run it; ``events`` is a second file for its events, besides that of its record."""
    todo.directory.make()
    with ExitStack() as stack:
        if todo.options.book is not None:
            stack.callback(todo.options.book.close)
        stack.callback(todo.directory.lock().release)
        pools = launched(todo.directory, todo.options.machine, len(todo.workflow), stack)
        # Here, since it takes about as long as the processes take to start.
        from dataward.runs.recorded_run import RecordedRun
        from dataward.runs.watcher import Silent

        run = RecordedRun(
            todo.workflow,
            todo.source,
            todo.directory,
            todo.options,
            pools,
            watcher or Silent(),
            resume=todo.resume,
        )
        return run.run(stack, events, todo.preparer)


def report_of(ending: "RunEnding") -> "RunReport":
    from dataward.api.report import RunReport
    from dataward.reports.event_file import EventFileReader

    path = ending.record.events

    def events() -> Iterator[Event]:
        return iter(EventFileReader(path))

    return RunReport(
        ending.progress.workflow,
        ending.state,
        ending.summary,
        ending.bound_seconds,
        events,
        ending.progress,
        ending.record,
        ending.forecast,
    )
