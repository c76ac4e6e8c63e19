"""Turns ``--set name=value`` into settings."""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any, TypeVar

from dataward.errors import SettingError

S = TypeVar("S")
_SIMPLE = (bool, int, float, str, Enum)


def check_names(pairs: list[str], known: Mapping[str, Any], useless: Collection[str] = ()) -> None:
    """Raise SettingError, with all that can be set, if a pair is not NAME=VALUE of a known name."""
    for pair in pairs:
        name, given, _ = pair.partition("=")
        if name in known and not given:
            raise SettingError(f"--set takes NAME=VALUE, as {name}={_shown(known[name])}")
        if name not in known:
            there_are = ", ".join(f"{n}={_shown(known[n])}" for n in known if n not in useless)
            raise SettingError(f"no setting is called {name!r}; there are {there_are}")


def values_of(settings: Any) -> dict[str, Any]:
    """Every setting by name, with its present value; no fields that no text could stand for."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: value for name, value in values.items() if isinstance(value, _SIMPLE)}


def is_setting_of(settings: Any, pair: str) -> bool:
    """Whether ``name=value`` names one of these settings."""
    return pair.partition("=")[0] in {field.name for field in fields(settings)}


def change_settings(settings: S, pairs: list[str]) -> S:
    """The settings with these changes, each value read as the type of its field."""
    known = values_of(settings)
    check_names(pairs, known)
    changes = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        changes[name] = _read(name, text, known[name])
    return replace(settings, **changes)  # type: ignore[type-var]


def _read(name: str, text: str, present: Any) -> Any:
    try:
        if isinstance(present, bool):
            return {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}[
                text.lower()
            ]
        if isinstance(present, Enum):
            return type(present)(text)
        value = type(present)(text)
    except (KeyError, ValueError):
        raise SettingError(
            f"{name} cannot be {text!r}; at present it is {_shown(present)}"
        ) from None
    if not value >= 0:  # refuses nan too
        raise SettingError(f"{name} cannot be {text}; it takes 0 or more")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
