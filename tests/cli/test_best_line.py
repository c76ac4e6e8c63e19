"""Which of several strategies was best: one sentence, which says ties as ties."""

from dataward.cli.best_line import best_sentence


def test_the_best_is_named_and_by_how_much() -> None:
    sentence = best_sentence({"adage": 10.0, "heft-links": 8.0, "random": 20.0})

    assert sentence == "heft-links is best here: 20.0% sooner than adage, the next."


def test_ties_are_said_as_ties() -> None:
    sentence = best_sentence({"adage": 10.0, "peft": 10.04, "heft": 10.01, "random": 20.0})

    assert sentence == (
        "adage, heft and peft are best here, within 0.5% of each other: "
        "50.0% sooner than random, the next."
    )


def test_of_many_that_are_equally_good_two_are_named() -> None:
    many = {f"s{number}": 1.0 for number in range(9)}

    assert best_sentence({**many, "slow": 4.0}).startswith("s0, s1 and 7 more are best here")


def test_if_all_are_equal_there_is_no_best() -> None:
    assert best_sentence({"a": 1.0, "b": 1.0}) == "All 2 are equally good here, within 0.5%."
    assert best_sentence({"a": 0.0, "b": 0.0}) == "All 2 are equally good here, within 0.5%."
