"""A run directory with outputs that the workflow no longer makes."""

from pathlib import Path

from blake3 import blake3

from dataward import WorkflowBuilder
from dataward.live.packed_tree import entries_of, tree_digest
from dataward.model.operations import OutputFile
from dataward.model.workflow import Workflow
from dataward.runs.input_digests import InputDigests
from dataward.runs.outcomes import Outcome
from dataward.runs.run_directory import RunDirectory
from dataward.runs.stale_outputs import StaleOutputs, clear_stale_outputs, note_stale_outputs

DIRECTORY = RunDirectory(Path("w.run"))
OLD = ("old", "deep/er/old", "tree/")


def a_workflow() -> Workflow:
    wf = WorkflowBuilder("w")
    wf.command("true", outputs=["kept"])
    return wf.build()


def set_out() -> None:
    DIRECTORY.make()
    for name in ("old", "deep/er/old", "tree/a", "tree/in/b", "kept"):
        path = DIRECTORY.outputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def note() -> None:
    """Note as stale what an earlier run has made."""
    files = []
    for name in OLD:
        path = DIRECTORY.outputs / name
        digest = tree_digest(entries_of(str(path))) if path.is_dir() else ""
        files.append(OutputFile(name, 1, digest or blake3(path.read_bytes()).hexdigest()))
    note_stale_outputs(DIRECTORY, [Outcome("", (), tuple(files))], a_workflow())


def clear() -> StaleOutputs:
    return clear_stale_outputs(DIRECTORY, a_workflow(), InputDigests(Path("digests")))


def left() -> set[str]:
    names = DIRECTORY.outputs.rglob("*")
    return {str(path.relative_to(DIRECTORY.outputs)) for path in names}
