"""Results in ``outputs/``: whole, the user's own, and safe once that is said."""

import os
from pathlib import Path

import pytest

from dataward.errors import OutputError
from dataward.live.depot_disk import Place
from dataward.live.packed_tree import entries_of, pack
from dataward.runs.publishing import Publisher
from power.effects import Recording
from power.small_cuts import PLACE, cut_at_the_end, cut_everywhere, recorded_lines
from power.tracing import why_impossible
from runs.real_runs import hashes

needs_recorder = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())


def a_publisher() -> Publisher:
    return Publisher(Path("outputs"), Path("work/drafts"))


def a_file(content: str = "new", *, mode: int = 0o444, outside: bool = False) -> Place:
    path = Path("in-depot")
    path.write_text(content)
    path.chmod(mode)
    return Place(str(path), len(content), "", outside)


def a_tree(*names: str) -> Place:
    top = Path("tree")
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    _, size_bytes = pack(entries_of(str(top)), "packed")
    return Place("packed", size_bytes, "", False)


def test_publishing_takes_the_place_of_what_was_there():
    path = Path("outputs/deep/o")
    path.parent.mkdir(parents=True)
    path.write_text("old")

    a_publisher().publish("deep/o", a_file(), stays=False)

    assert path.read_text() == "new"
    assert [p.name for p in path.parent.iterdir()] == ["o"]


def test_a_directory_takes_the_place_of_what_was_there():
    (Path("outputs") / "o" / "old").mkdir(parents=True)

    a_publisher().publish("o/", a_tree("new", "deep/er"), stays=False)

    assert hashes(Path("outputs")).keys() == {"o/new", "o/deep/er"}
    assert not list(Path("work/drafts").iterdir())


@pytest.mark.parametrize("kind", ["a file", "a link to a file", "a link to a directory"])
def test_a_directory_takes_the_place_of_what_is_none(kind):
    Path("outputs").mkdir()
    Path("elsewhere").mkdir()
    Path("elsewhere/file").write_text("the user's")
    if kind == "a file":
        Path("outputs/o").write_text("old")
    else:
        target = "../elsewhere/file" if kind == "a link to a file" else "../elsewhere"
        Path("outputs/o").symlink_to(target)

    a_publisher().publish("o/", a_tree("new"), stays=False)

    assert not Path("outputs/o").is_symlink()
    assert hashes(Path("outputs")).keys() == {"o/new"}
    assert Path("elsewhere/file").read_text() == "the user's"


@pytest.mark.parametrize("why", ["stays", "has another name", "is somebody else's"])
def test_what_is_published_is_a_copy_if_the_file_lives_on(why):
    place = a_file(outside=why == "is somebody else's")
    if why == "has another name":
        os.link(place.path, "another")

    a_publisher().publish("o", place, stays=why == "stays")
    Path("outputs/o").write_text("edited")

    assert Path(place.path).read_text() == "new"
    assert Path(place.path).stat().st_mode & 0o777 == 0o444


def test_a_program_stays_one():
    a_publisher().publish("o", a_file(mode=0o555), stays=False)

    assert Path("outputs/o").stat().st_mode & 0o777 == 0o755


def test_what_cannot_be_published_is_named():
    Path("outputs/o").mkdir(parents=True)

    with pytest.raises(OutputError, match=r"cannot write outputs/o: Is a directory"):
        a_publisher().publish("o", a_file(), stays=False)


# --- when the power is cut -----------------------------------------------------------------------

# What is in a depot is safe there; results of an earlier run are safe where they were published.
SET_OUT = """
import os
from pathlib import Path
from dataward.live.depot_disk import Place
from dataward.live.packed_tree import entries_of, pack
from dataward.runs.publishing import Publisher

publisher = Publisher(Path("outputs").absolute(), Path("work/drafts").absolute())

def in_depot(name, content="new"):
    path = "packed" if name.endswith("/") else "in-depot"
    if name.endswith("/"):
        os.makedirs("tree/empty"); Path("tree/a").write_text(content)
        pack(entries_of("tree"), path)
    else:
        Path(path).write_text(content)
    os.chmod(path, 0o444)
    os.sync()

def place(name):
    path = "packed" if name.endswith("/") else "in-depot"
    return Place(os.path.abspath(path), 0, "", False)
"""

HOWS = {
    "a link": "publisher.publish('o', place('o'), stays=False)",
    "a copy": "publisher.publish('o', place('o'), stays=True)",
    "a directory": "publisher.publish('o/', place('o/'), stays=False)",
}


def published(how: str, *, over: bool, then: str = "") -> Recording:
    """A recording of a result's publishing, where something of an earlier run may be."""
    name, path = ("o/", "outputs/o/a") if how == "a directory" else ("o", "outputs/o")
    old = f"os.makedirs({os.path.dirname(path)!r}); Path({path!r}).write_text('old')\n"
    first = f"{SET_OUT}{old if over else ''}in_depot({name!r})\n"
    return recorded_lines(first, then=f"{SET_OUT}{HOWS[how]}\n{then}")


@needs_recorder
@pytest.mark.parametrize("over", [False, True], ids=["where nothing was", "over another"])
@pytest.mark.parametrize("how", HOWS)
def test_at_any_moment_a_result_is_there_whole_or_not_at_all(how, over):
    recording = published(how, over=over)
    content = "o/a" if how == "a directory" else "o"
    seen = set()

    for cut in cut_everywhere(recording):
        if not (PLACE / "outputs").exists():
            continue
        found = {str(p.relative_to(PLACE / "outputs")) for p in (PLACE / "outputs").rglob("*")}
        assert found <= {"o", "o/a", "o/empty"}, cut
        text = (PLACE / "outputs" / content).read_text() if found else ""
        assert text in ("", "old", "new"), cut
        assert text or not found, cut
        seen.add(text)

    assert "new" in seen


@needs_recorder
@pytest.mark.parametrize("how", HOWS)
def test_a_result_that_was_synced_survives(how):
    name = "o/" if how == "a directory" else "o"

    cut_at_the_end(published(how, over=True, then=f"publisher.sync([{name!r}])"))

    assert (PLACE / "outputs" / (name + "a" if name == "o/" else name)).read_text() == "new"
    if name == "o/":
        assert (PLACE / "outputs" / "o" / "empty").is_dir()


@needs_recorder
def test_a_result_below_a_directory_that_a_killed_process_made_survives():
    publish = "publisher.publish('deep/er/o', place('o'), stays=True)\n"
    first = SET_OUT + "in_depot('o')\n" + publish
    then = SET_OUT + publish + "publisher.sync(['deep/er/o'])"

    cut_at_the_end(recorded_lines(first, killed_at="er", then=then))

    assert (PLACE / "outputs" / "deep" / "er" / "o").read_text() == "new"
