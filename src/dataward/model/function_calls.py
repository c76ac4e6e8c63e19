"""Calls of Python functions as tasks: the function and its arguments, pickled into a command.

A call's result is a file. An argument that is another call's result is pickled as the name of that
file; whoever makes the call (see `live`) reads the file.
"""

import base64
import io
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from types import ModuleType
from typing import Any

from dataward.model.workflow import Command, FileId, TaskId

# The first word of the command of a call; the second is the call, the third a digest of it that
# does not depend on where in its file the code is.
CALL = "dataward-call"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The future value of a call: ``file`` holds it, pickled, once ``task`` has run."""

    task: TaskId
    file: FileId


def call_command(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Command, list[CallResult]]:
    """The command of a call, and the results of other calls it takes. Raises PicklingError.

    A function is pickled by value unless it is installed, so that changed code makes a changed
    command. Modules that the function imports are imported where it runs.
    """
    # Imported here because it takes a tenth of dataward's import time, and few workflows need it.
    import cloudpickle

    from dataward.model.steady_pickle import SteadyPickler

    results: dict[CallResult, None] = {}

    def file_of(value: Any) -> str | None:
        if type(value) is not CallResult:
            return None
        results[value] = None
        return value.file

    call, lineless = io.BytesIO(), io.BytesIO()
    try:
        with _by_value(function, cloudpickle):
            SteadyPickler(call, file_of).dump((function, args, dict(kwargs)))
            SteadyPickler(lineless, file_of, has_lines=False).dump((function, args, dict(kwargs)))
    except Exception as error:
        raise pickle.PicklingError(
            f"{name_of_call(function)} or its arguments cannot be pickled: {error}"
        ) from error
    digest = blake2b(lineless.getvalue(), digest_size=16).hexdigest()
    return (CALL, base64.b85encode(call.getvalue()).decode(), digest), list(results)


def compared(command: Sequence[str]) -> Sequence[str]:
    """The words that tell whether a command has changed; of a call, not the lines it is on."""
    if len(command) == 3 and command[0] == CALL:
        return command[0], command[2]
    return command


def name_of_call(function: Callable[..., Any]) -> str:
    inner = _unwrapped(function)
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return name.strip("<>")


def _unwrapped(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


@contextmanager
def _by_value(function: Callable[..., Any], cloudpickle: Any) -> Iterator[None]:
    inner = _unwrapped(function)
    module = sys.modules.get(getattr(inner, "__module__", None) or type(inner).__module__)
    registered = cloudpickle.list_registry_pickle_by_value()
    if module is None or module.__name__ in registered or _is_installed(module):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    """Whether the module is in the standard library or installed, so that its code stays fixed."""
    file = getattr(module, "__file__", None)
    paths = sysconfig.get_paths()
    homes = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file is None or any(file.startswith(home) for home in homes)
