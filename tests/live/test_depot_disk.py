"""A node's files on a real disk, and how they get from one depot to another."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blake3 import blake3

from dataward.kernel import AsyncioKernel
from dataward.live import depot_disk
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place, clear_incoming, files_in_depot
from dataward.live.local_network import Wires
from dataward.live.orders import Written
from dataward.live.sandbox import put_in_depot
from dataward.model.events import FileMoved
from dataward.model.ids import ORIGIN
from dataward.model.operations import InputFile, OutputFile, TaskSpec
from dataward.world import DiskFull, StoredFile, TransferFailed


@pytest.fixture
def threads():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def backlog():
    backlog = Backlog()
    yield backlog
    backlog.close()


def a_disk(name, threads, backlog, held=None, earlier=None) -> DepotDisk:
    directory = Path("depot").absolute() / name
    return DepotDisk(directory, held or {}, earlier or {}, threads, threads, backlog)


def a_spec(*outputs: str) -> TaskSpec:
    files = tuple(OutputFile(name, 0) for name in outputs)
    return TaskSpec("t", "t", (), (), (), files, 0.0, 1, 0, 0, "n", 0.0, 0, ("true",))


def digest(content: bytes) -> str:
    return blake3(content).hexdigest()


def digests_in(directory: str) -> set[str]:
    return {place.digest for place in files_in_depot(Path(directory))}


def write(disk: DepotDisk, word: str = "1", **contents: bytes) -> list[OutputFile]:
    """What a task's runner process does, and then its node."""
    written = []
    for name, content in contents.items():
        Path(name).write_bytes(content)
        Path(name).chmod(0o444)
        place = put_in_depot(name, disk.directory, digest(content), f"{name}-{word}")
        written.append(Written(name, len(content), digest(content), place, 0))
    disk.wrote("t", tuple(written))
    return list(AsyncioKernel().run(disk.store_outputs(a_spec(*contents))))


def test_outputs_are_stored_under_their_content_and_found_again(threads, backlog):
    disk = a_disk("n0", threads, backlog)

    stored = write(disk, a=b"one", b=b"two")

    assert stored == [OutputFile("a", 3, digest(b"one")), OutputFile("b", 3, digest(b"two"))]
    assert Path(disk.where("a").path).read_bytes() == b"one"
    assert digests_in(disk.directory) == {digest(b"one"), digest(b"two")}


def test_a_large_output_is_hashed_and_named_by_the_node(threads, backlog):
    disk = a_disk("n0", threads, backlog)
    incoming = Path(disk.directory) / "incoming"
    incoming.mkdir()
    (incoming / "x-1").write_bytes(b"large")
    disk.wrote("t", (Written("big", 5, "", str(incoming / "x-1"), 0),))

    (stored,) = AsyncioKernel().run(disk.store_outputs(a_spec("big")))

    assert stored.digest == digest(b"large")
    assert Path(disk.where("big").path).read_bytes() == b"large"
    assert not list(incoming.iterdir())


def test_what_was_only_on_its_way_into_a_depot_is_not_in_it(threads, backlog):
    disk = a_disk("n0", threads, backlog)
    incoming = Path(disk.directory) / "incoming"
    incoming.mkdir()
    (incoming / "x-1").write_bytes(b"half")

    assert digests_in(disk.directory) == set()
    assert [path.name for path in incoming.iterdir()] == ["x-1"]
    assert digests_in("nowhere") == set()


def test_what_was_on_its_way_into_a_depot_can_be_removed(threads, backlog):
    disk = a_disk("n0", threads, backlog)
    incoming = Path(disk.directory) / "incoming"
    incoming.mkdir()
    (incoming / "x-1").write_bytes(b"half")

    clear_incoming(Path(disk.directory))
    clear_incoming(Path("nowhere"))

    assert not list(incoming.iterdir())


def test_a_file_that_may_be_written_to_is_not_believed(threads, backlog):
    disk = a_disk("n0", threads, backlog)
    write(disk, a=b"one", b=b"two")

    os.chmod(disk.where("a").path, 0o644)  # as publishing it does, before it leaves the depot

    assert digests_in(disk.directory) == {digest(b"two")}


def test_files_that_are_alike_go_each_by_itself(threads, backlog):
    disk = a_disk("n0", threads, backlog)
    write(disk, a=b"same")
    write(disk, b=b"same")

    disk.remove("a")
    backlog.close()

    assert disk.where("a") is None
    assert Path(disk.where("b").path).read_bytes() == b"same"


def test_what_is_outside_is_never_removed(threads, backlog):
    Path("mine").write_bytes(b"mine")
    place = Place(str(Path("mine").absolute()), 4, digest(b"mine"), True)
    disk = a_disk("n0", threads, backlog, {"mine": place})

    disk.remove("mine")
    backlog.close()

    assert Path("mine").exists()


def test_new_files_are_synced_once_and_their_directory_with_them(threads, backlog, monkeypatch):
    synced = []
    monkeypatch.setattr(depot_disk, "sync_files", lambda paths: synced.append(list(paths)))
    monkeypatch.setattr(depot_disk, "sync_path", synced.append)
    disk = a_disk("n0", threads, backlog)
    write(disk, a=b"one", b=b"two")

    AsyncioKernel().run(disk.sync())
    AsyncioKernel().run(disk.sync())

    assert synced == [[disk.where("a").path, disk.where("b").path], disk.directory]


def test_a_disk_that_cannot_be_synced_is_told_as_full(threads, backlog, monkeypatch):
    def sync_files(paths):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(depot_disk, "sync_files", sync_files)
    disk = a_disk("n0", threads, backlog)
    write(disk, a=b"one")

    with pytest.raises(DiskFull, match="the disk of the depot is full"):
        AsyncioKernel().run(disk.sync())


# --- what an earlier run has made ----------------------------------------------------------------


def left_by_a_run(node: str, threads, backlog) -> Place:
    """The place of ``a`` with content ``one`` in a node's depot, which a later run finds there."""
    disk = a_disk(node, threads, backlog)
    write(disk, a=b"one")
    return disk.where("a")


AS_IT_WAS = OutputFile("a", 3, digest(b"one"))


def test_what_a_node_made_in_an_earlier_run_is_its_own_again_where_it_is(threads, backlog):
    place = left_by_a_run("n0", threads, backlog)
    disk = a_disk("n0", threads, backlog, earlier={"a": place})

    assert disk.recall(AS_IT_WAS, "t")

    assert disk.where("a") == place
    assert os.listdir(disk.directory) == [Path(place.path).name], "there is no second copy"
    assert disk.files() == [StoredFile("a", 3, "t", True, place.digest)]


def test_what_another_node_made_in_an_earlier_run_gets_a_second_name_here(threads, backlog):
    place = left_by_a_run("n1", threads, backlog)
    disk = a_disk("n0", threads, backlog, earlier={"a": place})

    assert disk.recall(AS_IT_WAS, "t")

    assert Path(disk.where("a").path).parent == Path(disk.directory)
    assert os.path.samefile(disk.where("a").path, place.path)


def test_what_an_earlier_run_has_published_is_pointed_at_as_what_the_task_wrote(threads, backlog):
    Path("published").write_bytes(b"one")
    place = Place(str(Path("published").absolute()), 3, digest(b"one"), True)
    disk = a_disk("n0", threads, backlog, earlier={"a": place})

    assert disk.recall(AS_IT_WAS, "t")

    assert disk.where("a") == place
    assert os.listdir(disk.directory) == []
    assert disk.files() == [StoredFile("a", 3, "t", True, place.digest)]


@pytest.mark.parametrize("node", ["n0", "n1"])
@pytest.mark.parametrize("why", ["other content", "gone", "never made"])
def test_what_is_gone_or_was_something_else_is_not_recalled(why, node, threads, backlog):
    place = left_by_a_run(node, threads, backlog)
    disk = a_disk("n0", threads, backlog, earlier={} if why == "never made" else {"a": place})
    if why == "gone":
        os.unlink(place.path)
    wanted = OutputFile("a", 3, digest(b"two")) if why == "other content" else AS_IT_WAS

    assert not disk.recall(wanted, "t")

    assert disk.where("a") is None


def test_a_file_that_is_to_have_no_more_names_is_not_recalled(threads, backlog, monkeypatch):
    place = left_by_a_run("n1", threads, backlog)
    disk = a_disk("n0", threads, backlog, earlier={"a": place})

    def link(*_):
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    monkeypatch.setattr(os, "link", link)

    assert not disk.recall(AS_IT_WAS, "t")


# --- between nodes -------------------------------------------------------------------------------


def two_nodes(threads, backlog, outside=None):
    events = []
    wires = Wires(AsyncioKernel(), events.append, outside or {})
    disks = [a_disk(name, threads, backlog) for name in ("n0", "n1")]
    networks = [wires.plug_in(f"n{i}", disk) for i, disk in enumerate(disks)]
    return disks, networks, events


def fetch(network, file: InputFile, source: str) -> None:
    AsyncioKernel().run(network.fetch(file, source))


def test_a_file_fetched_is_at_both_nodes_and_stays_at_one_when_the_other_drops_it(threads, backlog):
    (here, there), (_, network), events = two_nodes(threads, backlog)
    (stored,) = write(here, a=b"one")

    fetch(network, InputFile("a", 3, "t", stored.digest), "n0")
    here.remove("a")
    backlog.close()

    assert Path(there.where("a").path).read_bytes() == b"one"
    (moved,) = events
    assert isinstance(moved, FileMoved)
    assert (moved.source, moved.target, moved.size_bytes) == ("n0", "n1", 3)


def test_what_a_node_has_not_or_has_otherwise_is_not_fetched(threads, backlog):
    (here, there), (_, network), events = two_nodes(threads, backlog)
    write(here, a=b"one")

    with pytest.raises(TransferFailed, match="different"):
        fetch(network, InputFile("a", 3, "t", digest(b"other")), "n0")
    with pytest.raises(TransferFailed, match="no 'b'"):
        fetch(network, InputFile("b", 3, "t"), "n0")
    with pytest.raises(TransferFailed):
        fetch(network, InputFile("a", 3, ""), ORIGIN)
    assert there.where("a") is None
    assert not events


def test_what_is_outside_is_only_pointed_at(threads, backlog):
    Path("mine").write_bytes(b"mine")
    place = Place(str(Path("mine").absolute()), 4, digest(b"mine"), True)
    (_, there), (_, network), _ = two_nodes(threads, backlog, {"mine": place})

    fetch(network, InputFile("mine", 4, ""), ORIGIN)

    assert there.where("mine") == place
    assert digests_in(there.directory) == set()


def test_the_places_of_all_nodes_are_those_in_their_depots_and_none_outside(threads, backlog):
    Path("mine").write_bytes(b"mine")
    place = Place(str(Path("mine").absolute()), 4, digest(b"mine"), True)
    (here, there), (_, network), _ = two_nodes(threads, backlog, {"mine": place})
    write(here, a=b"one", b=b"two")
    write(there, c=b"three")

    fetch(network, InputFile("mine", 4, ""), ORIGIN)

    in_depots = [here.where("a"), here.where("b"), there.where("c")]
    assert there.places() == [there.where("c"), place]
    assert network.wires.places() == in_depots
