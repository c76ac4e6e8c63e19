"""The tables of makespans: what is kept is not run again, and every number is where it belongs."""

from pathlib import Path

import pytest

from bench import schedules
from bench.schedules import Cell, measure, over_the_bound, strategy_of, table_of, traces_in
from dataward import generate, write_workflow
from dataward.strategies.registry import strategy_named


def a_cell(application: str = "montage", *changes: str, nodes: int = 2, seed: int = 1) -> Cell:
    return Cell(application, 30, nodes, "fair", "dataward", seed, changes)


def test_what_is_kept_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = tmp_path / "results.jsonl"
    cells = [a_cell(), a_cell("montage", "window_bytes=inf")]
    first = measure(cells, 1, keep)
    ran = []
    monkeypatch.setattr(schedules, "over_the_bound", lambda cell: ran.append(cell) or 5.0)

    second = measure([*cells, a_cell(seed=2)], 1, keep)

    assert ran == [a_cell(seed=2)]
    assert second == {**first, a_cell(seed=2): 5.0}
    assert measure([a_cell(seed=2)], 1, keep) == {a_cell(seed=2): 5.0}


def test_no_run_is_shorter_than_the_bound() -> None:
    assert over_the_bound(a_cell()) >= 1.0
    assert over_the_bound(Cell("sipht", 40, 3, "unequal", schedules.PLANNED, 1)) >= 1.0


def test_a_trace_is_run_as_the_workflow_it_holds(tmp_path: Path) -> None:
    trace = tmp_path / "wfformat" / "a.json"
    trace.parent.mkdir()
    write_workflow(generate("montage", 30, 1), trace)

    assert traces_in(tmp_path) == [str(trace)]
    assert over_the_bound(a_cell(str(trace))) == pytest.approx(over_the_bound(a_cell()), rel=1e-6)


def test_a_directory_without_traces_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"no traces in {tmp_path}"):
        traces_in(tmp_path)


def test_parts_of_other_strategies_can_be_taken() -> None:
    changed = strategy_of(a_cell("montage", "plan=adage", "backups_max=0"))

    assert changed.plan is strategy_named("adage").plan
    assert changed.mover == strategy_named("dataward").mover
    assert changed.settings.backups_max == 0


def test_a_place_of_the_table_has_the_mean_of_each_strategy() -> None:
    ratios = {
        Cell("sipht", 30, 4, "fair", "adage", 1): 2.0,
        Cell("sipht", 30, 4, "fair", "adage", 2): 3.0,
        Cell("sipht", 30, 4, "fair", "heft", 1): 1.0,
        Cell("montage", 30, 4, "fair", "adage", 1): 4.0,
        Cell("montage", 30, 16, "fair", "adage", 1): 5.0,
    }

    table = table_of("", ratios, lambda cell: cell.application, ["adage", "heft"])

    columns = {column.header: list(column.cells) for column in table.columns}
    assert columns == {
        "adage · heft": ["sipht", "montage", "all"],
        "4 nodes": ["2.500 · 1.000", "4.000 · –", "3.000 · 1.000"],
        "16 nodes": ["– · –", "5.000 · –", "5.000 · –"],
        "all": ["2.500 · 1.000", "4.500 · –", "3.500 · 1.000"],
    }
