"""What becomes of files when tasks commit: wanted ones are published, others go when unread."""

import os
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from builders import workflows
from dataward import WorkflowBuilder
from dataward.live.depot_disk import Place
from dataward.model.workflow import Workflow
from dataward.runs.housekeeping import SYNCED_TOGETHER, Housekeeping
from dataward.runs.keeping import Keeping
from dataward.runs.publishing import Publisher
from runs.real_runs import hashes


@dataclass
class Depot:
    """Files by name, in a directory of their own."""

    directory: Path
    places: dict[str, Place] = field(default_factory=dict)

    def put(self, file: str) -> None:
        path = self.directory / f"content of {file}"
        path.write_text(file)
        path.chmod(0o444)
        self.places[file] = Place(str(path), len(file), "", False)

    def find(self, file: str) -> Place | None:
        return self.places.get(file)

    def drop(self, file: str) -> None:
        os.unlink(self.places.pop(file).path)

    def later(self, work: Callable[[], None]) -> None:
        work()


def a_keeper(
    workflow: Workflow, outputs: Path, wanted: Container[str], depot: Depot, budget: float = 0.0
) -> Housekeeping:
    publisher, keeping = Publisher(outputs, outputs.parent / "drafts"), Keeping(budget)
    return Housekeeping(workflow, publisher, wanted.__contains__, depot, keeping, lambda task: 1.0)


def names(workflow: Workflow, row) -> set[str]:
    return {workflow.file_ids[number] for number in row.tolist()}


@given(workflows(), st.data())
def test_a_file_is_there_until_its_last_reader_is_done_and_published_if_wanted(workflow, data):
    made = [f"f{i}" for i in range(len(workflow))]
    wanted = set(data.draw(st.lists(st.sampled_from(made), unique=True)))
    again = set(data.draw(st.lists(st.integers(0, len(workflow) - 1), unique=True)))
    failing = data.draw(st.sampled_from([None, *range(len(workflow))]))
    with TemporaryDirectory() as place:
        depot, outputs = Depot(Path(place)), Path(place) / "outputs"
        keeper = a_keeper(workflow, outputs, wanted, depot)
        done: set[int] = set()

        for task in workflow.layers.order.tolist():
            parents = set(workflow.parents.row(task).tolist())
            if task == failing or not parents <= done:
                continue
            done.add(task)
            depot.put(f"f{task}")
            if task in again:
                keeper.on_reopened(workflow.task_ids[task])
            keeper.on_complete(workflow.task_ids[task])
            keeper.on_complete(workflow.task_ids[task])  # told twice
            keeper.settle()

            for i in done:
                readers = set(workflow.consumers.row(workflow.file_ids.index(f"f{i}")).tolist())
                assert (f"f{i}" in depot.places) == (not readers <= done or i in again)
        keeper.on_end()

        written = {f"f{i}" for i in done}
        published = hashes(outputs) if outputs.exists() else {}
        assert published.keys() == wanted & written
        for file in published:
            assert (outputs / file).read_text() == file
            assert (outputs / file).stat().st_nlink == 1, "editing it would edit the depot"
            assert (outputs / file).stat().st_mode & 0o777 == 0o644


# --- safe on the disk ----------------------------------------------------------------------------


@dataclass
class Recorder(Depot):
    """Notes in which order files are published, synced and dropped."""

    log: list[str] = field(default_factory=list)

    def drop(self, file: str) -> None:
        self.log.append(f"drop {file}")
        super().drop(file)

    def later(self, work: Callable[[], None]) -> None:
        self.log.append(work.func.__name__)
        super().later(work)


def test_a_result_leaves_the_depot_only_when_it_is_safe_where_its_user_looks(tmp_path):
    builder = WorkflowBuilder("w")
    builder.command("true", id="a", outputs=["x"])
    workflow = builder.build()
    depot = Recorder(tmp_path)
    keeper = a_keeper(workflow, tmp_path / "outputs", workflow.file_ids, depot)
    depot.put("x")

    keeper.on_complete(workflow.task_ids[0])
    keeper.on_end()

    assert depot.log == ["publish", "sync", "drop x"]


def test_many_results_are_synced_before_the_run_is_over(tmp_path):
    builder = WorkflowBuilder("w")
    for i in range(SYNCED_TOGETHER):
        builder.command("true", id=f"t{i}", outputs=[f"f{i}"])
    workflow = builder.build()
    depot = Recorder(tmp_path)
    keeper = a_keeper(workflow, tmp_path / "outputs", workflow.file_ids, depot)

    for i in range(SYNCED_TOGETHER):
        depot.put(f"f{i}")
        keeper.on_complete(workflow.task_ids[i])

    assert depot.log.count("sync") == 1
    assert not depot.places
