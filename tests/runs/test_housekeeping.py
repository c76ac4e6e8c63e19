"""What becomes of files when tasks commit: wanted ones are published, others go when unread."""

import os
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import workflows
from dataward import WorkflowBuilder
from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.model.workflow import Workflow
from dataward.runs import housekeeping
from dataward.runs.housekeeping import SYNCED_TOGETHER, Housekeeping, publish
from dataward.runs.keeping import Keeping
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
    keeping = Keeping(budget)
    return Housekeeping(workflow, outputs, wanted.__contains__, depot, keeping, lambda task: 1.0)


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


def a_file(content: str = "new", *, mode: int = 0o444, outside: bool = False) -> Place:
    path = Path("in-depot")
    path.write_text(content)
    path.chmod(mode)
    return Place(str(path), len(content), "", outside)


def test_publishing_takes_the_place_of_what_was_there(tmp_path):
    path = tmp_path / "outputs" / "deep" / "o"
    path.parent.mkdir(parents=True)
    path.write_text("old")

    publish(a_file(), path, stays=False)

    assert path.read_text() == "new"
    assert [p.name for p in path.parent.iterdir()] == ["o"]


def test_a_draft_of_a_run_that_was_killed_is_no_hindrance(tmp_path):
    (tmp_path / ".dataward-new").write_text("half")

    publish(a_file(), tmp_path / "o", stays=False)

    assert (tmp_path / "o").read_text() == "new"
    assert not (tmp_path / ".dataward-new").exists()


@pytest.mark.parametrize("why", ["stays", "has another name", "is somebody else's"])
def test_what_is_published_is_a_copy_if_the_file_lives_on(why, tmp_path):
    place = a_file(outside=why == "is somebody else's")
    if why == "has another name":
        os.link(place.path, "another")

    publish(place, tmp_path / "o", stays=why == "stays")
    (tmp_path / "o").write_text("edited")

    assert Path(place.path).read_text() == "new"
    assert Path(place.path).stat().st_mode & 0o777 == 0o444


def test_a_program_stays_one(tmp_path):
    publish(a_file(mode=0o555), tmp_path / "o", stays=False)

    assert (tmp_path / "o").stat().st_mode & 0o777 == 0o755


def test_what_cannot_be_published_is_named(tmp_path):
    (tmp_path / "o").mkdir()

    with pytest.raises(OutputError, match=r"cannot write .*/o: Is a directory"):
        publish(a_file(), tmp_path / "o", stays=False)


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

    assert depot.log == ["publish", "sync_published", "drop x"]


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

    assert depot.log.count("sync_published") == 1
    assert not depot.places


def test_syncing_covers_the_files_and_every_directory_that_lists_them(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(housekeeping, "sync_files", lambda paths: synced.extend(paths))
    monkeypatch.setattr(housekeeping, "sync_path", synced.append)

    housekeeping.sync_published(["o/a", "o/deep/b", "o/c"])

    assert synced == ["o/a", "o/deep/b", "o/c", "o", "o/deep"]
