"""Which tasks of a workflow need not run, because some run of the cluster has made the same.

From the contents of the inputs, and the outcomes known of the tasks that read them, follow the
contents that these wrote, and so on: one question for each layer of the workflow. A task is skipped
if its outcome is known and what is still needed of it is held by a node that is up.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from dataward.cluster.outcome_keys import KnownOutcome, outcome_key
from dataward.model.ids import NodeId
from dataward.model.workflow import FileId, Workflow
from dataward.runs.outcomes import recipe_of

AskOutcomes = Callable[[Sequence[str]], Awaitable[list[KnownOutcome | None]]]
AskHolders = Callable[[Set[str]], Awaitable[Mapping[str, tuple[NodeId, ...]]]]


@dataclass
class Skipping:
    """``skip`` has the outcomes of tasks that need not run; ``holders`` who has which content."""

    skip: dict[int, KnownOutcome] = field(default_factory=dict)
    known: dict[int, KnownOutcome] = field(default_factory=dict)
    holders: Mapping[str, tuple[NodeId, ...]] = field(default_factory=dict)


async def known_outcomes(
    workflow: Workflow,
    digests: Mapping[FileId, str],
    forced: Set[int],
    ask: AskOutcomes,
    holders: AskHolders,
) -> Skipping:
    """What need not run of a workflow with these inputs."""
    found = Skipping()
    contents = dict(digests)
    recipes = _recipes(workflow)
    names = workflow.file_ids
    for level in range(workflow.layers.depth):
        keys: dict[int, str] = {}
        for task in workflow.layers.level(level).tolist():
            read = [names[file] for file in workflow.inputs.row(task).tolist()]
            if task not in forced and all(file in contents for file in read):
                keys[task] = outcome_key(recipes[task], [(f, contents[f]) for f in read])
        for task, outcome in zip(keys, await ask(list(keys.values())), strict=True):
            if outcome is not None:
                found.known[task] = outcome
                contents.update({file.id: file.digest for file in outcome.outputs})
    wanted = {file.digest for outcome in found.known.values() for file in outcome.outputs}
    found.holders = await holders(wanted) if wanted else {}
    found.skip = _not_needed(workflow, found)
    return found


def _not_needed(workflow: Workflow, found: Skipping) -> dict[int, KnownOutcome]:
    """The known tasks that need not run: all that is read of them, or is a result, is held.

    A task that runs needs what it reads, so its parents run too if theirs is held by nobody. And
    what it writes may differ from what it wrote before, so whoever reads that runs as well.
    """
    consumers, names = workflow.consumers, workflow.file_ids
    runs = {task for task in range(len(workflow)) if task not in found.known}
    todo = list(runs)
    for task in found.known:
        results = [f for f in workflow.outputs.row(task).tolist() if not consumers.row(f).size]
        if any(not _is_held(names[file], task, found) for file in results):
            runs.add(task)
            todo.append(task)
    while todo:
        task = todo.pop()
        for file in workflow.outputs.row(task).tolist():
            fresh = set(consumers.row(file).tolist()) - runs
            runs |= fresh
            todo += fresh
        for file in workflow.inputs.row(task).tolist():
            for maker in workflow.producers.row(file).tolist():
                if maker not in runs and not _is_held(names[file], maker, found):
                    runs.add(maker)
                    todo.append(maker)
    return {task: outcome for task, outcome in found.known.items() if task not in runs}


def _is_held(file: FileId, maker: int, found: Skipping) -> bool:
    written = {output.id: output.digest for output in found.known[maker].outputs}
    return bool(found.holders.get(written.get(file, "")))


def _recipes(workflow: Workflow) -> list[str]:
    names = workflow.file_ids
    return [
        recipe_of(
            workflow.commands[task] or (),
            [names[file] for file in workflow.outputs.row(task).tolist()],
            workflow.launches.get(task),
        )
        for task in range(len(workflow))
    ]
