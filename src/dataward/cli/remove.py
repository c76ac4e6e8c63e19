"""``dataward remove``: removes tasks from a run under way."""

from typing import Annotated

from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import JsonOption
from dataward.cli.parameters import Argument


def remove_command(
    run: Annotated[str, Argument(help="The run, as montage.run.")],
    tasks: Annotated[list[str], Argument(help="Tasks, or types of tasks.")],
    json: JsonOption = False,
) -> None:
    """Remove tasks from a run under way, with all tasks that depend on them.

    A task that is running is stopped. One that is complete stays, and so does what depends on it.
    The run goes on with the other tasks and ends as *partial*, with exit code 5; `--resume`, or a
    later run, runs the removed tasks after all.

    Exit code 1 says that a task was not removed, since it had ended already.

    Examples:

    - `dataward remove montage.run mAdd_1`
    - `dataward remove montage.run mDiffFit mAdd_1`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import counted, encodable, print_json, stdout_console
    from dataward.cli.recorded import recorded_run, workflow_of
    from dataward.model.states import TaskState
    from dataward.runs.removal_requests import RemovalAnswer, request_removal
    from dataward.runs.selection import tasks_named

    record = recorded_run(run)
    workflow = workflow_of(record)
    wanted = sorted(tasks_named(workflow, tasks), key=lambda task: workflow.index_of[task])
    answers = request_removal(record, wanted)

    def sentence(answer: RemovalAnswer) -> str:
        name = visible(answer.task)
        if answer.state is not TaskState.REMOVED:
            return f"{name} is {answer.state.value} already; it was not removed"
        more = f", with {counted(answer.others, 'task')} that depend on it" if answer.others else ""
        return f"removed {name}{more}"

    if json:
        said = [{"task": a.task, "state": a.state.value, "others": a.others} for a in answers]
        print_json({"run": encodable(record.path), "tasks": said})
    else:
        for answer in answers:
            stdout_console().print(sentence(answer), soft_wrap=True)
    if any(answer.state is not TaskState.REMOVED for answer in answers):
        raise SystemExit(ExitCode.FAILED)
