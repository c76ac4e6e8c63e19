"""Turns ``--set name=value`` into settings."""

from dataclasses import fields, replace
from enum import Enum
from typing import Any, TypeVar

from dataward.errors import SettingError

S = TypeVar("S")


def is_setting_of(settings: Any, pair: str) -> bool:
    """Whether ``name=value`` names one of these settings."""
    return pair.partition("=")[0] in {field.name for field in fields(settings)}


def change_settings(settings: S, pairs: list[str]) -> S:
    """The settings with these changes, each value read as the type of its field."""
    known = {field.name: getattr(settings, field.name) for field in fields(settings)}  # type: ignore[arg-type]
    changes = {}
    for pair in pairs:
        name, given, text = pair.partition("=")
        if not given or name not in known:
            raise SettingError(f"no node setting is called {name!r}; there are {', '.join(known)}")
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
    return value.value if isinstance(value, Enum) else str(value).lower()
