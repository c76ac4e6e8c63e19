"""``dataward cancel``: cancels a run of a cluster, or some of its tasks."""

from typing import Annotated

from dataward.cli.options import AccessOption, ClusterRunArgument, ContactOption, JsonOption
from dataward.cli.parameters import Argument


def cancel_command(
    run: ClusterRunArgument,
    tasks: Annotated[
        list[str] | None,
        Argument(help="Only these tasks, with all that depend on them; default: the whole run."),
    ] = None,
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel a run, or tasks of it with everything that depends on them.

    What runs is ended. A task that is complete stays so, and so do the tasks that depend on it.

    Examples:

    - `dataward cancel montage-9e1f --access lab/submit.access`
    - `dataward cancel montage-9e1f mAdd_1`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.exit_codes import ExitCode
    from dataward.cli.output import print_json, stdout_console
    from dataward.cli.visiting import visit
    from dataward.model.states import RunState, TaskState
    from dataward.model.workflow import TaskId

    console = stdout_console()
    if not tasks:
        ended = visit(access, contacts, lambda visitor: visitor.cancel(run), run=run, role="submit")
        if json:
            print_json({"run": ended.name, "state": ended.state.value})
        else:
            was = "" if ended.state is RunState.CANCELLED else " already; it was not cancelled"
            console.print(f"{visible(run)} is {ended.state.value}{was}", soft_wrap=True)
        if ended.state is not RunState.CANCELLED:
            raise SystemExit(ExitCode.FAILED)
        return
    named = [TaskId(task) for task in tasks]
    removed = visit(
        access, contacts, lambda visitor: visitor.remove(run, named), run=run, role="submit"
    )
    if json:
        print_json([{"task": one.task, "state": one.state.value} for one in removed])
    for one in () if json else removed:
        is_removed = one.state is TaskState.REMOVED
        what = "removed" if is_removed else f"{one.state.value} already; it was not removed"
        console.print(f"{visible(one.task)}: {what}", soft_wrap=True)
    if any(one.state is not TaskState.REMOVED for one in removed):
        raise SystemExit(ExitCode.FAILED)
