"""Which files of ended runs make room first."""

import asyncio
import os
from pathlib import Path

from blake3 import blake3

from dataward.cluster.host_files import HostFiles
from dataward.cluster.leftovers import NEW_SECONDS, leftovers
from dataward.cluster.run_here import RunDirectoryHere
from dataward.live.depot_disk import Place
from dataward.live.digest_index import DigestIndex
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun
from dataward.model.states import RunState


class Depot:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = DigestIndex()
        (path / "uploads").mkdir()

    def run(self, name: str, ended: float) -> RunDirectoryHere:
        directory = RunDirectoryHere(self.path, name)
        directory.make(ClusterRun(name, "w", "adage", 1, "me", "d", (), 1, state=RunState.COMPLETE))
        os.utime(directory.record, (ended, ended))
        return directory

    def put(self, directory: Path, digest: str, age: float = 2 * NEW_SECONDS) -> Path:
        path = directory / f"{digest}.x"
        path.write_text(digest)
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
        self.index.add(Place(str(path), len(digest), digest, False))
        return path

    def goes(self, *running: str) -> list[str]:
        return [place.digest for place in leftovers(self.path, self.index, running)]


def test_what_the_first_run_left_goes_first_and_results_stay(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    late, early = depot.run("late", ended=200.0), depot.run("early", ended=100.0)
    for directory, digest in ((late, "b"), (early, "a"), (early, "result")):
        depot.put(directory.files, digest)
    early.add_results(["result"])

    assert depot.goes() == ["a", "b"]


def test_files_of_a_run_that_goes_on_stay(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    depot.put(depot.run("on", ended=100.0).files, "a")

    assert depot.goes("on") == []


def test_of_uploads_go_those_that_nobody_uses(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    run = depot.run("on", ended=1.0)
    run.write_parts(["description"])
    depot.run("over", ended=1.0).add_results(["handed-over"])
    for digest in ("unused", "description", "handed-over"):
        depot.put(depot.path / "uploads", digest)
    depot.put(depot.path / "uploads", "new", age=0.0)
    os.link(depot.put(depot.path / "uploads", "linked"), run.files / "linked.placed-0")

    assert depot.goes("on") == ["unused"]


def test_an_upload_that_a_run_has_had_goes_also_if_it_is_new(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    run = depot.run("on", ended=1.0)
    for digest in ("had", "new"):
        depot.put(depot.path / "uploads", digest, age=0.0)
    os.link(depot.put(depot.path / "uploads", "linked", age=0.0), run.files / "linked.placed-0")

    goes = leftovers(depot.path, depot.index, ["on"], {"had", "linked"}.__contains__)

    assert [place.digest for place in goes] == ["had"]


def test_an_upload_that_a_submitter_has_just_asked_for_stays(tmp_path: Path) -> None:
    files = HostFiles(NodeId("n1"), tmp_path, 10.0)
    (tmp_path / "uploads" / "incoming").mkdir(parents=True)
    asyncio.run(files.check())
    digests = [blake3(content).hexdigest() for content in (b"first", b"second")]
    for content, digest in zip((b"first", b"second"), digests, strict=True):
        files.keep_part(content, digest)
    files.note_served(digests)

    assert files.find(digests[1]) is not None
    files.make_room(10.0, ())

    assert files.find(digests[0]) is None
    assert files.find(digests[1]) is not None


def test_a_list_of_results_grows_and_survives_a_torn_line(tmp_path: Path) -> None:
    run = Depot(tmp_path).run("r", ended=1.0)
    run.add_results(["a", "b"])
    with open(run.results, "a") as file:
        file.write("tor")

    run.add_results(["c"])

    assert {"a", "b", "c"} <= run.kept()
