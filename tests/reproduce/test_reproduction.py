"""Experiments from their cells to their page, on all cores; and again, with nothing left to do."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dataward.api import all_cores
from dataward.errors import OutputError, SettingError
from dataward.reproduce import drawing
from dataward.reproduce.cells import CellValues, Numbers
from dataward.reproduce.page import Told
from dataward.reproduce.reproduction import Reproduction
from dataward.reproduce.sweep import CellJob, CellOutcome, OnCell
from reproduce.small_experiment import SMALL


def done(directory: Path, *experiments: object, quick: bool = False) -> tuple[list[Told], int]:
    """What came of the experiments, and how many of their cells had to be measured."""
    fresh = 0

    def on_jobs(jobs: Sequence[CellJob]) -> OnCell:
        return on_cell

    def on_cell(job: CellJob, outcome: CellOutcome) -> None:
        nonlocal fresh
        fresh += outcome.seconds > 0

    told = Reproduction(experiments or (SMALL,), directory, quick).run(on_jobs)  # type: ignore[arg-type]
    return told, fresh


def test_an_experiment_leaves_its_numbers_its_figure_and_a_page(tmp_path: Path) -> None:
    (told,), fresh = done(tmp_path / "new" / "out")

    assert fresh == 4
    assert not told.problem
    out = tmp_path / "new" / "out"
    with (out / "small-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["strategy"] for row in rows] == ["adage", "adage", "adage-random", "adage-random"]
    assert [row["nodes"] for row in rows] == ["1", "2", "1", "2"]
    (panel,) = told.charts[0].panels
    drawn = [y for series in panel.series for y in series.y]
    assert [float(row["seconds"]) for row in rows] == pytest.approx(drawn, rel=1e-5)
    svg = ElementTree.parse(out / "small-1.svg").getroot()
    texts = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"adage", "adage-random", "seconds", "A small one"} <= texts
    assert (out / "small-1.png").read_bytes().startswith(b"\x89PNG")


def test_all_cores_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (alone,), _ = done(tmp_path / "one", quick=True)
    monkeypatch.setattr(all_cores, "cores_here", lambda: 2)

    (together,), fresh = done(tmp_path / "two", quick=True)

    assert fresh == 2
    assert together.charts == alone.charts


def test_the_page_tells_every_claim_with_its_verdict(tmp_path: Path) -> None:
    (told,), _ = done(tmp_path)

    page = (tmp_path / "report.md").read_text()
    ours = told.judged[0].finding.ours
    assert f"ADAGE is faster \\| than chance. | faster | {ours} |" in page
    assert "| Somebody is right. | somebody | nobody | **does not hold** |" in page
    assert "*Likely reason:* it was made up." in page
    assert "*Likely reason:* half was left out." in page
    assert "nobody asks why" not in page
    assert "![A small one](small-1.svg)" in page
    assert "[small-1.csv](small-1.csv)" in page
    assert "Nothing is assumed." in page
    assert "--quick" not in page


def test_the_same_experiment_gives_the_same_files(tmp_path: Path) -> None:
    done(tmp_path / "one")
    done(tmp_path / "other")

    for name in ("small-1.csv", "small-1.svg", "small-1.png", "report.md"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_what_has_been_measured_is_not_measured_again(tmp_path: Path) -> None:
    _, first = done(tmp_path, quick=True)
    _, second = done(tmp_path)
    _, third = done(tmp_path)

    assert (first, second, third) == (2, 2, 0)


def test_a_quick_page_says_so_and_gives_no_reasons(tmp_path: Path) -> None:
    done(tmp_path, quick=True)

    page = (tmp_path / "report.md").read_text()
    assert "Made with `--quick`" in page
    assert "made up" not in page


def test_an_experiment_without_its_strategies_is_told_and_the_others_are_done(
    tmp_path: Path,
) -> None:
    def strategy(values: CellValues) -> str:
        return "nosuch"

    lame = replace(SMALL, name="lame-1", study=replace(SMALL.study, strategy=strategy))

    told, _ = done(tmp_path, lame, SMALL, quick=True)

    assert [each.problem for each in told] == ["needs strategies that do not exist: nosuch", ""]
    page = (tmp_path / "report.md").read_text()
    assert "Not done: needs strategies that do not exist: nosuch." in page
    assert "small-1.svg" in page


def fail_on_two_nodes(values: CellValues) -> Numbers:
    if values["nodes"] == 2 and values["strategy"] == "adage":
        raise ZeroDivisionError("oh")
    return {"makespan_seconds": 1.0}


def test_a_cell_that_fails_spoils_its_experiment_alone_and_is_tried_again(tmp_path: Path) -> None:
    study = replace(SMALL.study, name="bad", measure=fail_on_two_nodes)
    bad = replace(SMALL, name="bad-1", study=study)

    told, _ = done(tmp_path, bad, SMALL)
    _, again = done(tmp_path, bad, SMALL)

    assert "nodes 2, strategy adage" in told[0].problem
    assert "ZeroDivisionError: oh" in told[0].problem
    assert not told[1].problem
    assert again == 0  # the failed one has no time to tell; all others are kept


def test_drawing_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)

    with pytest.raises(SettingError, match=r"pip install 'dataward\[plots\]'"):
        done(tmp_path / "out")

    assert not (tmp_path / "out").exists()  # said before anything is measured


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match=r"cannot write .*file/out"):
        done(tmp_path / "file" / "out")
