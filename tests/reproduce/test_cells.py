"""Cells and what can be asked of their numbers."""

from dataward.reproduce.cells import Results, a_cell


def some_results() -> Results:
    return Results(
        {
            a_cell(size=20, repetition=0): {"seconds": 4.0, "profile": [1.0, 2.0]},
            a_cell(size=20, repetition=1): {"seconds": 6.0, "profile": [3.0, 4.0]},
            a_cell(size=3, repetition=0): {"seconds": 1.0, "profile": [0.0, 0.0]},
        }
    )


def test_a_mean_is_over_all_cells_with_the_values_asked_for() -> None:
    assert some_results().mean("seconds", size=20) == 5.0
    assert some_results().mean("seconds", size=20, repetition=1) == 6.0


def test_a_curve_rises_along_its_axis() -> None:
    assert some_results().curve("seconds", "size") == [(3, 1.0), (20, 5.0)]


def test_an_axis_keeps_the_order_of_the_cells() -> None:
    assert some_results().axis("size") == [20, 3]


def test_a_profile_is_averaged_place_by_place() -> None:
    assert some_results().mean_profile("profile", size=20) == [2.0, 3.0]


def test_a_cell_is_known_by_its_values_not_by_its_weight() -> None:
    assert a_cell(5.0, size=3) == a_cell(1.0, size=3)
    assert a_cell(size=3) != a_cell(size=4)
