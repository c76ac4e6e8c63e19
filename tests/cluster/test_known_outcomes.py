"""What need not run of a workflow, by what the cluster knows and who holds what."""

import asyncio
from collections.abc import Mapping, Sequence, Set

from dataward.cluster.known_outcomes import Skipping, known_outcomes
from dataward.cluster.outcome_keys import KnownOutcome, outcome_key
from dataward.model.builder import WorkflowBuilder
from dataward.model.file_edges import with_file_edges
from dataward.model.ids import NodeId
from dataward.model.operations import OutputFile
from dataward.model.workflow import FileId, Workflow
from dataward.runs.outcomes import recipe_of

HERE = (NodeId("n1"),)


def chain() -> Workflow:
    """in -> a -> b -> c, and a -> d: c and d are results."""
    wf = WorkflowBuilder("chain")
    for task, reads, writes in (("a", "in", "fa"), ("b", "fa", "fb"), ("c", "fb", "fc"),
                                ("d", "fa", "fd")):  # fmt: skip
        wf.task(task, command=(task,), inputs=[reads], outputs=[writes])
    return with_file_edges(wf.build())


class Cluster:
    """Knows the outcomes of all tasks that ran on certain contents, and who holds what."""

    def __init__(self, workflow: Workflow, given: Mapping[str, str]) -> None:
        self.outcomes: dict[str, KnownOutcome] = {}
        self.held: dict[str, tuple[NodeId, ...]] = {}
        self.questions = 0
        contents = dict(given)
        for task in workflow.layers.order.tolist():
            one = workflow.task(task)
            outputs = tuple(OutputFile(f, 1, f"{f}-made") for f in one.outputs)
            recipe = recipe_of(one.command or (), one.outputs)
            key = outcome_key(recipe, [(f, contents[f]) for f in one.inputs])
            self.outcomes[key] = KnownOutcome(outputs, 1.0, HERE[0])
            contents.update({file.id: file.digest for file in outputs})
            self.held.update({file.digest: HERE for file in outputs})

    async def ask(self, keys: Sequence[str]) -> list[KnownOutcome | None]:
        self.questions += 1
        return [self.outcomes.get(key) for key in keys]

    async def holders(self, digests: Set[str]) -> Mapping[str, tuple[NodeId, ...]]:
        return {digest: self.held[digest] for digest in digests if digest in self.held}

    def asked(self, workflow: Workflow, given: Mapping[str, str], *forced: str) -> Skipping:
        numbers = {workflow.index_of[task] for task in forced}  # type: ignore[index]
        digests = {FileId(file): digest for file, digest in given.items()}
        return asyncio.run(known_outcomes(workflow, digests, numbers, self.ask, self.holders))


def skipped(workflow: Workflow, found: Skipping) -> set[str]:
    return {workflow.task_ids[task] for task in found.skip}


def test_nothing_runs_twice_that_is_known_and_held() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})

    assert skipped(workflow, cluster.asked(workflow, {"in": "x"})) == {"a", "b", "c", "d"}
    assert cluster.questions == workflow.layers.depth


def test_another_input_makes_everything_new() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})

    assert skipped(workflow, cluster.asked(workflow, {"in": "y"})) == set()


def test_a_lost_intermediate_matters_only_if_somebody_needs_it() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})
    del cluster.held["fa-made"], cluster.held["fb-made"]

    assert skipped(workflow, cluster.asked(workflow, {"in": "x"})) == {"a", "b", "c", "d"}


def test_a_lost_result_is_made_again_from_what_is_held() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})
    del cluster.held["fc-made"]

    assert skipped(workflow, cluster.asked(workflow, {"in": "x"})) == {"a", "b", "d"}


def test_what_runs_again_makes_its_readers_run() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})
    del cluster.held["fc-made"], cluster.held["fb-made"], cluster.held["fa-made"]

    assert skipped(workflow, cluster.asked(workflow, {"in": "x"})) == set()


def test_a_task_that_is_forced_runs_with_what_follows() -> None:
    workflow = chain()
    cluster = Cluster(workflow, {"in": "x"})

    assert skipped(workflow, cluster.asked(workflow, {"in": "x"}, "b")) == {"a", "d"}
