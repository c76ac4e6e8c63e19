"""The file of measured cells: what it keeps, and what it no longer believes."""

from pathlib import Path

import pytest

from dataward.errors import OutputError
from dataward.reproduce.cells import CellValues, Numbers, Study, a_cell
from dataward.reproduce.kept_cells import CellFile, key_of

CELL = a_cell(size=20, strategy="adage", share=0.5)


def nothing(values: CellValues) -> Numbers:
    return {}


def a_study(settings: str = "as ever") -> Study:
    return Study("study", nothing, lambda values: settings, lambda values: "")


def test_what_is_added_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    key = key_of(a_study(), CELL)

    CellFile(tmp_path / "cells").add(key, {"seconds": 3, "profile": (1.5, 2)}, 0.25)

    again = CellFile(tmp_path / "cells")
    assert again.get(key) == {"seconds": 3.0, "profile": [1.5, 2.0]}


def test_a_cell_measured_under_other_settings_does_not_count(tmp_path: Path) -> None:
    CellFile(tmp_path / "cells").add(key_of(a_study(), CELL), {"seconds": 3}, 0.25)

    again = CellFile(tmp_path / "cells")

    assert again.get(key_of(a_study("changed"), CELL)) is None
    assert again.get(key_of(a_study(), a_cell(size=21, strategy="adage", share=0.5))) is None


def test_the_order_of_a_cells_values_does_not_matter(tmp_path: Path) -> None:
    turned = a_cell(share=0.5, strategy="adage", size=20)

    assert key_of(a_study(), CELL) == key_of(a_study(), turned)


@pytest.mark.parametrize("left", [1, 30, -1])
def test_a_line_that_was_cut_off_does_not_spoil_the_others(tmp_path: Path, left: int) -> None:
    path = tmp_path / "cells"
    first, second, third = (key_of(a_study(), a_cell(size=n)) for n in range(3))
    file = CellFile(path)
    file.add(first, {"seconds": 1}, 0.1)
    whole = path.stat().st_size
    file.add(second, {"seconds": 2}, 0.1)
    content = path.read_bytes()
    path.write_bytes(content[: whole + left] if left > 0 else content[:left])

    CellFile(path).add(third, {"seconds": 3}, 0.1)

    again = CellFile(path)
    assert again.get(first) == {"seconds": 1.0}
    assert again.get(third) == {"seconds": 3.0}
    assert again.get(second) == (None if left > 0 else {"seconds": 2.0})


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = CellFile(tmp_path / "gone" / "cells")

    with pytest.raises(OutputError, match=r"cannot write .*gone/cells"):
        file.add(key_of(a_study(), CELL), {}, 0.0)
