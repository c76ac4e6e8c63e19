"""Inputs that no node has any more, on a cluster of real processes."""

from pathlib import Path

from blake3 import blake3

from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import write_workflow
from dataward.cluster.visitor import Visitor
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptEnded
from dataward.model.states import AttemptOutcome, RunState
from dataward.reports.event_file import EventFileReader

PATIENCE = "lost_input_seconds=4"


def a_workflow(directory: Path, gate: Path) -> Path:
    """The second task reads an input, once the first was let through the gate."""
    (directory / "precious").write_text("only here")
    wf = WorkflowBuilder("precious")
    wf.command(f"while ! test -e {gate}; do sleep 0.05; done; echo 1 > a", id="a", outputs=["a"])
    wf.command("cat a precious > b", id="b", inputs=["a", "precious"], outputs=["b"])
    wf.command("cat b > c", id="c", inputs=["b"], outputs=["c"])
    write_workflow(wf.build(), directory / "w.json")
    return directory / "w.json"


def remove_everywhere(cluster: LaptopCluster, content: bytes) -> int:
    """How many files with this content there were in the depots."""
    digest = blake3(content).hexdigest()
    found = list((cluster.path / "depots").rglob(f"{digest}*"))
    for path in found:
        path.unlink()
    return len(found)


def why_failed(cluster: LaptopCluster, run: str) -> dict[str, str]:
    """The reasons that all hosts have told, by task."""
    return {
        event.task: event.reason
        for path in (cluster.path / "depots").glob(f"*/runs/{run}/events")
        for event in EventFileReader(path)
        if isinstance(event, AttemptEnded) and event.outcome is AttemptOutcome.FAILED
    }


def test_an_input_lost_everywhere_ends_the_run_and_the_next_submission_mends_it(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    path = a_workflow(tmp_path, gate)
    with laptop_cluster(tmp_path / "lab", 2, lease="2s") as cluster:
        run = cluster.submit(path, settings=(PATIENCE,)).run.name

        async def begun(visitor: Visitor) -> None:
            while (await visitor.run(run)).counts.get("running", 0) == 0:
                pass

        cluster.ask(begun)
        assert remove_everywhere(cluster, b"only here") > 0
        gate.touch()
        ended = cluster.wait(run)

        assert ended.run.state is RunState.FAILED
        assert ended.counts == {"complete": 1, "failed": 2}
        (sentence,) = why_failed(cluster, run).values()
        assert "input 'precious' is lost: nobody has served it for" in sentence
        assert " had it (no node that is up has it: submit the workflow again" in sentence

        again = cluster.submit(path, settings=(PATIENCE,)).run.name
        assert cluster.wait(again).run.state is RunState.COMPLETE
        assert cluster.fetch(again, tmp_path / "got") == {"c": b"1\nonly here"}
