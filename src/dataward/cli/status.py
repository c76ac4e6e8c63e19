"""``dataward status``: says how the runs of a cluster stand."""

from typing import Annotated

from dataward.cli.options import AccessOption, ContactOption, JsonOption
from dataward.cli.parameters import Argument

Waits = dict[str, list[str]]  # by run: sentences about tasks that wait for room


def status_command(
    run: Annotated[str, Argument(help="A run's name; default: all runs.")] = "",
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Say how the runs of a cluster stand, those that go on and those that have ended.

    A run whose tasks wait for room in the nodes' depots says so. Executors that borrow slots now
    are told as well, unless a run is named.

    Examples:

    - `dataward status --access lab/read.access`
    - `dataward status montage-9e1f --json`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.executors import by_executor, executor_as_json, sentence_about_executor
    from dataward.cli.output import print_json, stderr_console, stdout_console
    from dataward.cli.visiting import visit
    from dataward.cli.watching import facts_as_json, sentence_about
    from dataward.cluster.exchange import ExecutorFacts, RunFactsNow
    from dataward.cluster.visitor import Visitor
    from dataward.model.states import RunState

    async def look(visitor: Visitor) -> tuple[list[RunFactsNow], Waits, list[ExecutorFacts]]:
        facts = await visitor.cluster()
        names = [run] if run else [one.name for one in facts.runs]
        runs = [await visitor.run(name) for name in names]
        going_on = [one.run.name for one in runs if one.run.state is RunState.RUNNING]
        waits = {name: await visitor.waits_for_room(name) for name in going_on}
        return runs, waits, [] if run else await visitor.executors()

    found, waits, at_hosts = visit(access, contacts, look, run=run or None)
    executors = [executor_as_json(facts) for facts in by_executor(at_hosts)]
    if json:
        told = [
            {**facts_as_json(one), "waits_for_room": waits.get(one.run.name, [])} for one in found
        ]
        print_json([*told, *executors])
        return
    for one in found:
        stdout_console().print(sentence_about(one), soft_wrap=True)
        for sentence in waits.get(one.run.name, []):
            stdout_console().print(f"  {visible(sentence)}", soft_wrap=True)
    for executor in executors:
        stdout_console().print(sentence_about_executor(executor), soft_wrap=True)
    if not found and not executors:
        stderr_console().print("no runs; submit one with 'dataward submit FILE'")
