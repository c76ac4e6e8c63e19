"""The words of a command line: options anywhere, values of every kind, and what makes no sense."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest

from dataward.cli.parameters import Argument, Option, UsageError, parameters_of
from dataward.cli.parsing import asks_for_help, parse, similar


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def a_command(
    file: Annotated[Path, Argument(help="A file.")],
    more: Annotated[list[str] | None, Argument(help="More files.")] = None,
    count: Annotated[int, Option("--count", "-n", help="How many.", min=1, max=9)] = 4,
    share: Annotated[float | None, Option(help="A share.", min=0.0)] = None,
    time_limit: Annotated[str, Option(help="A time.")] = "",
    colour: Annotated[Colour, Option(help="A colour.")] = Colour.RED,
    set_: Annotated[list[str] | None, Option("--set", help="A setting.")] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing.")] = False,
    err: Annotated[bool | None, Option("--err/--out", help="Which one.")] = None,
) -> None: ...


PARAMETERS = parameters_of(a_command)


def parsed(*words: str) -> dict[str, Any]:
    return parse(words, PARAMETERS)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--count", "7"], {"count": 7}),
        (["--count=7"], {"count": 7}),
        (["-n", "7"], {"count": 7}),
        (["-n7"], {"count": 7}),
        (["-n=7"], {"count": 7}),
        (["--share", "0.5"], {"share": 0.5}),
        (["--time-limit", "5min"], {"time_limit": "5min"}),
        (["--time-limit="], {"time_limit": ""}),
        (["--time-limit", "-1"], {"time_limit": "-1"}),
        (["--colour", "blue"], {"colour": Colour.BLUE}),
        (["--set", "a=1", "--set", "b=2"], {"set_": ["a=1", "b=2"]}),
        (["--yes"], {"yes": True}),
        (["-yq"], {"yes": True, "quiet": True}),
        (["-yn7"], {"yes": True, "count": 7}),
        (["--err"], {"err": True}),
        (["--out"], {"err": False}),
        (["--err", "--out"], {"err": False}),
        (["--count", "1", "--count", "2"], {"count": 2}),
    ],
    ids=" ".join,
)
def test_options_may_stand_before_and_after_arguments(
    words: list[str], given: dict[str, Any]
) -> None:
    assert parsed("f", *words) == {"file": Path("f"), **given}
    assert parsed(*words, "f") == {"file": Path("f"), **given}


def test_arguments_that_are_left_over_go_to_the_list() -> None:
    assert parsed("f", "a", "-y", "b") == {"file": Path("f"), "more": ["a", "b"], "yes": True}


def test_after_two_dashes_no_word_is_an_option() -> None:
    assert parsed("-y", "--", "-n", "--help") == {
        "file": Path("-n"),
        "more": ["--help"],
        "yes": True,
    }
    assert not asks_for_help(["--", "--help"])
    assert asks_for_help(["x", "-h"])


def test_a_single_dash_is_an_argument() -> None:
    assert parsed("-") == {"file": Path("-")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the argument FILE is missing"),
        (["f", "--count"], "--count needs a value: integer"),
        (["f", "--count", "many"], "--count cannot be 'many'; it takes an integer from 1 to 9"),
        (["f", "-n", "10"], "--count cannot be 10; it takes an integer from 1 to 9"),
        (["f", "--share", "-1"], "--share cannot be -1; it takes a number of 0 or more"),
        (["f", "--share", "nan"], "--share cannot be nan; it takes a number of 0 or more"),
        (["f", "--colour", "green"], "--colour cannot be 'green'; it takes red or blue"),
        (["f", "--yes=1"], "--yes takes no value"),
        (["f", "--cuont", "1"], "there is no option --cuont (did you mean --count?)"),
        (["f", "-x"], "there is no option -x"),
        (["f", "-yx"], "there is no option -x"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(*words)

    assert str(refused.value) == said


def test_an_argument_too_many_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="one argument too many: 'b'"):
        parse(["a", "b"], PARAMETERS[:1])


def test_only_what_is_similar_is_suggested() -> None:
    assert similar("inspct", ["run", "inspect"]) == " (did you mean inspect?)"
    assert similar("xyz", ["run", "inspect"]) == ""
