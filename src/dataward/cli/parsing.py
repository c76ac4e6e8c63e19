"""Reads the words after a command: options in any order among its arguments."""

from collections.abc import Sequence
from typing import Any

from dataward.cli.parameters import CommandParameter, UsageError

HELP = ("-h", "--help")


def parse(words: Sequence[str], parameters: Sequence[CommandParameter]) -> dict[str, Any]:
    """The value of every parameter that was given. Raises UsageError."""
    values: dict[str, Any] = {}
    rest = list(words)
    loose: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            loose += rest
            break
        if word.startswith("-") and word != "-":
            _take_option(word, rest, parameters, values)
        else:
            loose.append(word)
    _take_arguments(loose, [p for p in parameters if not p.names], values)
    for parameter in parameters:
        if parameter.is_required and parameter.key not in values:
            what = "option" if parameter.names else "argument"
            raise UsageError(f"the {what} {parameter.shown} is missing")
    return values


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether ``--help`` is among the words before ``--``, after which no word is an option."""
    options = words[: words.index("--")] if "--" in words else words
    return any(word in HELP for word in options)


def _take_option(
    word: str, rest: list[str], parameters: Sequence[CommandParameter], values: dict[str, Any]
) -> None:
    name, has_value, text = word.partition("=")
    if not word.startswith("--") and len(word) > 2:  # -n100, or -yq for two flags
        name, has_value, text = word[:2], "=", word[2:].removeprefix("=")
    parameter = _named(name, parameters)
    if parameter.is_flag:
        if has_value and word.startswith("--"):
            raise UsageError(f"{name} takes no value")
        if has_value:
            rest.insert(0, f"-{text}")
        values[parameter.key] = name != parameter.off_name
        return
    if not has_value:
        if not rest:
            raise UsageError(f"{name} needs a value: {parameter.kind}")
        text = rest.pop(0)
    _put(parameter, text, values)


def _named(name: str, parameters: Sequence[CommandParameter]) -> CommandParameter:
    known = {known: p for p in parameters for known in (*p.names, p.off_name) if known}
    if name not in known:
        raise UsageError(f"there is no option {name}{similar(name, [*known, *HELP])}")
    return known[name]


def _take_arguments(
    words: Sequence[str], arguments: Sequence[CommandParameter], values: dict[str, Any]
) -> None:
    for place, word in enumerate(words):
        if place >= len(arguments) and not (arguments and arguments[-1].is_list):
            raise UsageError(f"there is one argument too many: {word!r}")
        _put(arguments[min(place, len(arguments) - 1)], word, values)


def _put(parameter: CommandParameter, text: str, values: dict[str, Any]) -> None:
    value = parameter.value_of(text)
    if parameter.is_list:
        values.setdefault(parameter.key, []).append(value)
    else:
        values[parameter.key] = value


def similar(name: str, known: Sequence[str]) -> str:
    """`` (did you mean inspect?)``, or "" if nothing known is similar."""
    from difflib import get_close_matches

    found = get_close_matches(name, known, 1)
    return f" (did you mean {found[0]}?)" if found else ""
