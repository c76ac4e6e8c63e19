"""Which files between tasks are kept: the dearest that fit, and never more than was allowed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.live.sandbox import place_in_depot
from dataward.model.operations import OutputFile
from dataward.runs.keeping import Keep, Keeping, parse_keep, trim_depots
from dataward.runs.outcomes import Outcome

FILES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 50), st.integers(0, 9)), max_size=30
)


@given(FILES, st.integers(0, 100))
def test_what_is_kept_fits_and_nothing_that_went_was_worth_more(files, budget):
    keeping = Keeping(budget)
    kept: dict[str, tuple[int, int]] = {}

    for file, size, seconds in files:
        kept[file] = size, seconds
        gone = keeping.add(file, size, seconds)

        worth = {f: s / n if n else float("inf") for f, (n, s) in kept.items()}
        stays = [worth[f] for f in kept if f not in gone]
        assert all(worth[f] <= min(stays, default=float("inf")) for f in gone)
        for f in gone:
            del kept[f]
        assert keeping.used_bytes == sum(size for size, _ in kept.values()) <= budget


def test_a_file_that_is_removed_makes_room():
    keeping = Keeping(10)
    keeping.add("a", 10, 5.0)
    keeping.remove("a")

    assert keeping.add("b", 10, 1.0) == []


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("auto", Keep()),
        ("final", Keep(0.0)),
        ("all", Keep(everything=True)),
        ("50GB", Keep(50e9)),
    ],
)
def test_how_much_to_keep_is_said_in_words_or_bytes(text, keep, tmp_path):
    assert parse_keep(text) == keep
    assert keep.budget_bytes is None or keep.bytes_in(tmp_path) == keep.budget_bytes


def test_a_share_of_what_is_free_is_kept_if_nothing_is_said(tmp_path):
    assert Keep().bytes_in(tmp_path) > 0


def test_what_is_no_size_is_refused():
    with pytest.raises(SettingError, match="'lots' is not"):
        parse_keep("lots")


# --- after a run ---------------------------------------------------------------------------------


def put(depot: Path, digest: str, content: str) -> Path:
    depot.mkdir(parents=True, exist_ok=True)
    path = Path(place_in_depot(str(depot), digest, "word"))
    path.write_text(content)
    path.chmod(0o444)
    return path


def made(digest: str, seconds: float) -> Outcome:
    return Outcome("", (), (OutputFile(digest, 1, digest),), seconds=seconds)


def test_the_cheapest_and_what_nobody_knows_leave_the_depots(tmp_path):
    dear, cheap = put(tmp_path / "n1", "aa", "123"), put(tmp_path / "n2", "bb", "123")
    stray = put(tmp_path / "n2", "cc", "123")

    trim_depots(tmp_path, {"dear": made("aa", 9.0), "cheap": made("bb", 1.0)}, budget_bytes=4)

    assert dear.exists()
    assert not cheap.exists()
    assert not stray.exists()
    assert not (tmp_path / "n2").exists(), "nothing is left in it"


def test_without_a_budget_nothing_is_left(tmp_path):
    depots = tmp_path / "depot"
    put(depots / "n1", "aa", "")

    trim_depots(depots, {"t": made("aa", 1.0)}, budget_bytes=0)

    assert not depots.exists()
