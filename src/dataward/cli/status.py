"""``dataward status``: says how the runs of a cluster stand."""

from typing import Annotated

from dataward.cli.options import AccessOption, ContactOption, JsonOption
from dataward.cli.parameters import Argument


def status_command(
    run: Annotated[str, Argument(help="A run's name; default: all runs.")] = "",
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Say how the runs of a cluster stand, those that go on and those that have ended.

    Executors that borrow slots now are told as well, unless a run is named.

    Examples:

    - `dataward status --access lab/read.access`
    - `dataward status montage-9e1f --json`
    """
    from dataward.cli.executors import by_executor, executor_as_json, sentence_about_executor
    from dataward.cli.output import print_json, stderr_console, stdout_console
    from dataward.cli.visiting import visit
    from dataward.cli.watching import facts_as_json, sentence_about
    from dataward.cluster.exchange import ExecutorFacts, RunFactsNow
    from dataward.cluster.visitor import Visitor

    async def look(visitor: Visitor) -> tuple[list[RunFactsNow], list[ExecutorFacts]]:
        facts = await visitor.cluster()
        names = [run] if run else [one.name for one in facts.runs]
        runs = [await visitor.run(name) for name in names]
        return runs, [] if run else await visitor.executors()

    found, at_hosts = visit(access, contacts, look, run=run or None)
    executors = [executor_as_json(facts) for facts in by_executor(at_hosts)]
    if json:
        print_json([*(facts_as_json(one) for one in found), *executors])
        return
    for one in found:
        stdout_console().print(sentence_about(one), soft_wrap=True)
    for executor in executors:
        stdout_console().print(sentence_about_executor(executor), soft_wrap=True)
    if not found and not executors:
        stderr_console().print("no runs; submit one with 'dataward submit FILE'")
