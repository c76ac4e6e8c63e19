"""Tables: whole where there is room, and on a narrow terminal without a column lost in silence."""

from dataward.cli.tables import table_lines

HEADINGS = ("run", "workflow", "state", "tasks", "failed")
ROWS = (
    ("montage.run/1", "montage", "complete", "1,000", "0"),
    ("日本.run/1", "日本", "failed", "4", "2"),
)


def lines(room: int, *spare: str) -> list[str]:
    return [line for line, _ in table_lines(HEADINGS, ROWS, room, spare)]


def test_a_table_that_fits_is_one_block_with_numbers_flush_right() -> None:
    assert lines(80) == [
        "run            workflow     state  tasks  failed",
        "montage.run/1   montage  complete  1,000       0",
        "日本.run/1         日本    failed      4       2",
    ]


def test_columns_that_can_be_spared_go_first_and_are_named() -> None:
    said = lines(40, "workflow", "tasks")

    assert said == [
        "run               state  tasks  failed",
        "montage.run/1  complete  1,000       0",
        "日本.run/1       failed      4       2",
        "(no room for workflow: a wider terminal",
        "or --json shows all)",
    ]


def test_no_more_columns_are_spared_than_must_be() -> None:
    assert lines(33, "workflow", "tasks", "failed")[0] == "run               state  failed"


def test_columns_that_nobody_can_spare_go_on_below() -> None:
    assert lines(30) == [
        "run            workflow",
        "montage.run/1   montage",
        "日本.run/1         日本",
        "(too wide for this terminal:",
        "the columns go on below)",
        "",
        "run               state  tasks",
        "montage.run/1  complete  1,000",
        "日本.run/1       failed      4",
        "",
        "run            failed",
        "montage.run/1       0",
        "日本.run/1          2",
    ]


def test_where_not_even_two_columns_fit_each_row_is_a_list() -> None:
    assert lines(22)[:6] == [
        "montage.run/1",
        "  workflow  montage",
        "  state     complete",
        "  tasks     1,000",
        "  failed    0",
        "日本.run/1",
    ]


def test_every_cell_is_shown_however_narrow_the_terminal() -> None:
    cells = {cell for row in ROWS for cell in row}

    for room in range(1, 60):
        said = "\n".join(lines(room))
        assert all(cell in said for cell in cells), room
        assert all(heading in said for heading in HEADINGS[1:]), room
