"""What a command takes, read from the signature of its function.

A parameter is written ``name: Annotated[int, Option(help="...", min=1)] = 4``. The types are bool,
int, float, str, Path and enumerations, any of them or None, and lists of them.
"""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin

from dataward.errors import SettingError

_KINDS = {int: "integer", float: "number", str: "text", Path: "path"}


class UsageError(SettingError):
    """The command line makes no sense."""


class Argument(NamedTuple):
    help: str


class Option:
    """An option; without ``names`` it is called like its parameter, as ``--time-limit``.

    The name of a flag may be a pair ``--on/--off``.
    """

    def __init__(
        self, *names: str, help: str, min: float | None = None, max: float | None = None
    ) -> None:
        self.names = names
        self.help = help
        self.min = min
        self.max = max


class CommandParameter(NamedTuple):
    """One parameter of a command: ``names`` is empty for an argument."""

    key: str
    names: tuple[str, ...]
    off_name: str  # of a flag that has a name for False
    help: str
    type: Any
    is_list: bool
    is_required: bool
    default: Any
    least: float | None
    most: float | None

    @property
    def is_flag(self) -> bool:
        return self.type is bool

    @property
    def shown(self) -> str:
        """The parameter's name in messages."""
        return self.names[0] if self.names else self.key.rstrip("_").upper()

    @property
    def kind(self) -> str:
        """What may be given: ``integer``, ``path``, or the choices."""
        if issubclass(self.type, Enum):
            return "|".join(str(choice.value) for choice in self.type)
        return _KINDS[self.type]

    def value_of(self, text: str) -> Any:
        """The value that the text stands for. Raises UsageError."""
        try:
            value = self.type(text)
        except ValueError:
            raise UsageError(f"{self.shown} cannot be {text!r}; it takes {self._taken()}") from None
        if not self._is_in_range(value):
            raise UsageError(f"{self.shown} cannot be {text}; it takes {self._taken()}")
        return value

    def _is_in_range(self, value: Any) -> bool:
        # So written that nan is out of every range.
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    def _taken(self) -> str:
        if issubclass(self.type, Enum):
            return " or ".join(str(choice.value) for choice in self.type)
        kind = "an integer" if self.type is int else "a number"
        return f"{kind}{self.range_shown()}"

    def range_shown(self) -> str:
        """Such as `` from 0.01 to 1,000``; "" if every number is accepted."""
        if self.least is None:
            return ""
        if self.most is None:
            return f" of {self.least:g} or more"
        return f" from {_bound(self.least)} to {_bound(self.most)}"


def _bound(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def parameters_of(function: Callable[..., None]) -> list[CommandParameter]:
    """What a command's function takes, in the order of its signature."""
    code, defaults = function.__code__, function.__defaults__ or ()
    keys = code.co_varnames[: code.co_argcount]
    given = dict(zip(keys[len(keys) - len(defaults) :], defaults, strict=True))
    return [_parameter(key, function.__annotations__[key], given) for key in keys]


def _parameter(key: str, annotation: Any, defaults: dict[str, Any]) -> CommandParameter:
    kind, (marked,) = annotation.__origin__, annotation.__metadata__
    if get_origin(kind) is UnionType:
        kind = next(part for part in get_args(kind) if part is not type(None))
    is_list = get_origin(kind) is list
    names: tuple[str, ...] = ()
    off_name, least, most = "", None, None
    if isinstance(marked, Option):
        names = marked.names or (f"--{key.rstrip('_').replace('_', '-')}",)
        on_name, _, off_name = names[0].partition("/")
        names = (on_name, *names[1:])
        least, most = marked.min, marked.max
    return CommandParameter(
        key,
        names,
        off_name,
        marked.help,
        get_args(kind)[0] if is_list else kind,
        is_list,
        key not in defaults,
        defaults.get(key),
        least,
        most,
    )
