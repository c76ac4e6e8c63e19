"""A task's private directory: what is linked in, what is taken out, what is left for the next."""

import os
import time
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.live.orders import Input
from dataward.live.packed_tree import unpack
from dataward.live.sandbox import HASHED_HERE_BYTES, BadOutput, InputGone, Sandbox, digest_in
from live.test_trees import refusing


@pytest.fixture
def sandbox(tmp_path) -> Sandbox:
    (tmp_path / "depot").mkdir()
    return Sandbox(str(tmp_path / "work"))


@pytest.fixture
def depot(tmp_path) -> str:
    return str(tmp_path / "depot")


def an_input(name: str, at: str, content: str = "content") -> Input:
    path = Path(at) / f"{name.replace('/', '_')}.file"
    path.write_text(content)
    path.chmod(0o444)
    return Input(name, str(path), False)


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
def test_outputs_are_in_the_depot_under_their_digests(tmp_path_factory, contents):
    root = tmp_path_factory.mktemp("outputs")
    (root / "depot").mkdir()
    sandbox = Sandbox(str(root / "work"))
    names = [f"d{i % 2}/o{i}" for i in range(len(contents))]
    sandbox.prepare((), names)
    for name, content in zip(names, contents, strict=True):
        Path(name).write_bytes(content)

    written = sandbox.take_out(names, str(root / "depot"))

    assert [one.name for one in written] == names
    for one, content in zip(written, contents, strict=True):
        assert one.digest == blake3(content).hexdigest() == digest_in(Path(one.path).name)
        assert one.size_bytes == len(content)
        assert Path(one.path).read_bytes() == content
        assert Path(one.path).stat().st_mode & 0o777 == 0o444
    assert len({one.path for one in written}) == len(written), "alike, yet each by itself"
    os.chdir("/")


def test_a_large_output_is_left_for_the_node_to_name(sandbox, depot):
    Path("o").write_bytes(b"x" * (HASHED_HERE_BYTES + 1))

    (written,) = sandbox.take_out(["o"], depot)

    assert (written.digest, written.size_bytes) == ("", HASHED_HERE_BYTES + 1)
    assert Path(written.path).parent == Path(depot) / "incoming"
    assert Path(written.path).stat().st_size == HASHED_HERE_BYTES + 1


def test_if_one_output_is_bad_none_is_moved(sandbox, depot):
    Path("good").write_text("x")

    with pytest.raises(BadOutput, match="did not write 'bad'"):
        sandbox.take_out(["good", "bad"], depot)

    assert os.listdir(depot) == []
    assert Path("good").read_text() == "x"


def test_an_output_below_a_file_is_not_written(sandbox, depot):
    Path("d").write_text("a file")

    with pytest.raises(BadOutput, match="did not write 'd/o'"):
        sandbox.take_out(["d/o"], depot)


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o555])
def test_an_output_in_a_directory_that_the_task_has_closed_is_taken_out(sandbox, depot, mode):
    sandbox.prepare((), ["d/e/o", "p"])
    Path("d/e/o").write_text("x")
    Path("p").write_text("y")
    close("d/e", "d", ".", mode=mode)

    written = sandbox.take_out(["d/e/o", "p"], depot)

    assert [Path(one.path).read_text() for one in written] == ["x", "y"]


def test_a_file_in_an_output_directory_that_its_task_has_closed_is_taken_out(
    sandbox, depot, monkeypatch
):
    sandbox.prepare((), ["d/"])
    Path("d").mkdir()
    for name in ("d/closed", "d/open"):
        Path(name).write_text(name)
    os.chmod("d/closed", 0)
    os.chmod("d/open", 0o640)
    # Root may read it all the same, and would not be told that others may not.
    monkeypatch.setattr(os, "access", lambda path, _: bool(os.stat(path).st_mode & 0o400))

    (written,) = sandbox.take_out(["d/"], depot)

    unpack(written.path, "again")
    assert [Path("again", name).read_text() for name in ("closed", "open")] == [
        "d/closed",
        "d/open",
    ]
    assert [os.stat(name).st_mode & 0o777 for name in ("d/closed", "d/open")] == [0o400, 0o640]


def close(*directories: str, mode: int) -> None:
    """The innermost first: nobody but root gets past one that is closed."""
    for directory in directories:
        os.chmod(directory, mode)


def test_an_input_that_is_gone_is_named(sandbox, depot):
    with pytest.raises(InputGone, match=r"^x$"):
        sandbox.prepare([Input("x", f"{depot}/none", False)], ())


def test_an_input_that_went_while_the_task_ran_is_named(sandbox, depot):
    x = an_input("x", depot)
    sandbox.prepare([x], ())
    os.unlink(x.path)

    with pytest.raises(InputGone, match=r"^x$"):
        sandbox.spoiled([x])


def test_reading_spoils_nothing_and_writing_does(sandbox, depot):
    x, y = an_input("d/x", depot), an_input("y", depot)
    sandbox.prepare([x, y], ())

    assert Path("d/x").read_text() == "content"
    assert sandbox.spoiled([x, y]) == ()

    Path("d/x").chmod(0o644)
    with Path("d/x").open("a") as file:
        file.write("more")
    assert sandbox.spoiled([x, y]) == ("d/x",)


def stored(sandbox: Sandbox, depot: str, content: str = "content") -> Input:
    """An input as the depot remembers it: with the size and time of what a task wrote."""
    sandbox.prepare((), ["x"])
    Path("x").write_text(content)
    (made,) = sandbox.take_out(["x"], depot)
    return Input("x", made.path, False, made.size_bytes, made.modified_ns)


def test_an_input_as_it_was_stored_is_linked_in(sandbox, depot):
    x = stored(sandbox, depot)

    sandbox.prepare([x], ())

    assert Path("x").read_text() == "content"


@pytest.mark.parametrize("change", ["content", "time"])
def test_an_input_that_another_task_has_just_spoiled_is_gone_for_all(change, sandbox, depot):
    x = stored(sandbox, depot)
    os.chmod(x.path, 0o644)
    if change == "content":
        Path(x.path).write_text("spoiled, and longer")
    os.utime(x.path, ns=(0, x.modified_ns + 1))

    with pytest.raises(InputGone, match="x"):
        sandbox.prepare([x], ())

    assert not os.path.exists(x.path)


def test_an_input_that_a_task_has_made_unreadable_is_readable_for_others(sandbox, depot):
    x, y = an_input("x", depot), an_input("y", depot)
    Path(y.path).chmod(0)

    sandbox.prepare([x, y], ())
    Path("x").chmod(0)

    assert sandbox.spoiled([x, y]) == ()
    assert [Path(file.path).stat().st_mode & 0o777 for file in (x, y)] == [0o444, 0o444]


def test_an_input_of_the_users_keeps_its_mode(sandbox, tmp_path):
    mine = tmp_path / "mine"
    mine.touch()
    mine.chmod(0)
    x = Input("x", str(mine), True)

    sandbox.prepare([x], ())

    assert sandbox.spoiled([x]) == ()
    assert mine.stat().st_mode & 0o777 == 0


def test_the_links_to_files_of_the_users_are_made_once(sandbox, tmp_path):
    """Making one takes long where many were just removed."""
    inputs = [users_file(tmp_path, name) for name in ("x", "y")]
    found = []
    for _ in range(3):
        sandbox.prepare(inputs, [])
        found.append([(os.readlink(name), os.lstat(name).st_ino) for name in ("x", "y")])
        sandbox.tidy()

    assert [path for path, _ in found[0]] == [file.path for file in inputs]
    assert found[0] == found[1] == found[2]
    assert os.listdir() == []


def test_if_the_links_to_files_of_the_users_are_gone_they_are_made_again(sandbox, tmp_path):
    x, y = (users_file(tmp_path, name) for name in ("x", "y"))
    sandbox.prepare([x, y], [])
    sandbox.tidy()
    os.unlink(f"{sandbox.directory}.links/1")  # by a task that removes what is not its own

    for _ in range(2):
        sandbox.prepare([x, y], [])
        assert [os.readlink(name) for name in ("x", "y")] == [x.path, y.path]
        sandbox.tidy()


def test_where_no_second_name_can_be_given_every_link_is_made_anew(sandbox, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    x = users_file(tmp_path, "x")

    for _ in range(2):
        sandbox.prepare([x], [])
        assert os.readlink("x") == x.path
        sandbox.tidy()


def test_of_many_files_of_the_users_only_so_many_links_are_kept(sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr("dataward.live.outside_links.LINKS_MAX", 2)
    inputs = [users_file(tmp_path, name) for name in "abcd"]

    sandbox.prepare(inputs, [])

    assert [os.readlink(name) for name in "abcd"] == [file.path for file in inputs]
    assert len(os.listdir(f"{sandbox.directory}.links")) == 2


def users_file(directory: Path, name: str) -> Input:
    path = directory / f"users {name}"
    path.write_text(name)
    return Input(name, str(path), outside=True)


def test_removing_or_replacing_its_own_link_spoils_nothing(sandbox, depot):
    x, y = an_input("x", depot), an_input("y", depot)
    sandbox.prepare([x, y], ())

    Path("x").unlink()
    Path("y.new").write_text("new")
    Path("y.new").replace("y")

    assert sandbox.spoiled([x, y]) == ()


def test_an_input_on_another_disk_is_linked_by_name(sandbox, tmp_path):
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk only")
    elsewhere = Path(f"/dev/shm/dataward-test-{os.getpid()}")
    elsewhere.mkdir()
    try:
        x = an_input("x", str(elsewhere))
        sandbox.prepare([x], ())

        assert Path("x").is_symlink()
        assert Path("x").read_text() == "content"
        assert sandbox.spoiled([x]) == ()
    finally:
        for path in elsewhere.iterdir():
            path.unlink()
        elsewhere.rmdir()


def test_nothing_is_left_after_tidying(sandbox):
    Path("d/e").mkdir(parents=True)
    Path("d/e/f").touch()
    Path(".hidden").touch()
    Path("dangling").symlink_to("nowhere")
    Path("to-directory").symlink_to("/usr")
    os.mkfifo("pipe")

    sandbox.tidy()

    assert os.listdir(sandbox.directory) == []
    assert Path("/usr").is_dir()


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444, 0o555])
def test_directories_that_a_task_has_closed_go_with_all_that_is_in_them(sandbox, mode):
    for top in ("a", "z"):
        Path(top, "b/c").mkdir(parents=True)
        for place in (top, f"{top}/b", f"{top}/b/c"):
            Path(place, "file").touch()
        close(f"{top}/b/c", f"{top}/b", top, mode=mode)

    sandbox.tidy()

    assert os.listdir(sandbox.directory) == []


def test_what_cannot_be_removed_does_not_keep_the_rest(sandbox, monkeypatch):
    for name in ("a", "theirs", "z"):
        Path(name).touch()
    monkeypatch.setattr(os, "unlink", refusing("theirs", os.unlink))

    with pytest.raises(PermissionError, match="theirs"):
        sandbox.tidy()

    assert os.listdir(sandbox.directory) == ["theirs"]


@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_task_that_closes_its_own_directory_leaves_it_open_for_the_next(sandbox, mode):
    before = os.stat(sandbox.directory).st_mode
    Path("file").touch()
    close(sandbox.directory, mode=mode)

    sandbox.tidy()

    assert os.stat(sandbox.directory).st_mode == before
    assert os.listdir(sandbox.directory) == []


def test_a_directory_that_was_closed_and_not_written_to_is_opened_too(sandbox):
    """Its time of change, which spares a look into it, does not tell."""
    os.utime(sandbox.directory, ns=(0, 0))
    before = os.stat(sandbox.directory).st_mode
    sandbox.tidy()
    sandbox.prepare((), ())
    close(sandbox.directory, mode=0o555)

    sandbox.tidy()

    assert os.stat(sandbox.directory).st_mode == before


@pytest.mark.parametrize("is_long_ago", [True, False])
def test_what_a_task_made_goes_also_if_nothing_was_there_before(sandbox, is_long_ago):
    """Long ago, the directory's time of change tells; a moment ago, it may still be the same."""
    tidied_ns = 0 if is_long_ago else time.time_ns() + 10**12
    os.utime(sandbox.directory, ns=(tidied_ns, tidied_ns))
    sandbox.tidy()
    sandbox.prepare((), ())
    Path("made").touch()
    if not is_long_ago:
        os.utime(sandbox.directory, ns=(tidied_ns, tidied_ns))  # as a clock with long steps has it

    sandbox.tidy()

    assert os.listdir(sandbox.directory) == []


def test_a_directory_in_which_nothing_was_made_is_not_looked_into(sandbox, monkeypatch):
    os.utime(sandbox.directory, ns=(0, 0))
    sandbox.tidy()
    sandbox.prepare((), ())
    monkeypatch.setattr(os, "listdir", refusing("work", os.listdir))

    sandbox.tidy()


def test_a_directory_that_was_removed_is_made_again(sandbox):
    os.rmdir(sandbox.directory)

    sandbox.tidy()
    Path("o").write_text("x")

    assert os.listdir(sandbox.directory) == ["o"]


def test_a_file_outside_that_is_not_as_it_was_is_not_read_but_stays() -> None:
    place = Path("published").absolute()
    place.write_text("edited since")

    with pytest.raises(InputGone, match="x"):
        Sandbox("work").prepare(
            [Input("x", str(place), outside=True, size_bytes=1, modified_ns=1)], []
        )

    assert place.read_text() == "edited since"
