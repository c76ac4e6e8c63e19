"""Commands run by another program, a wrapper: a container's, ``nice`` or ``srun``."""

import shlex
from collections.abc import Iterable
from dataclasses import replace

from dataward.errors import SettingError
from dataward.model.function_calls import CALL
from dataward.model.workflow import Command, Workflow

COMMAND = "{command}"  # what stands for a task's command in its wrapper


def wrapped(workflow: Workflow, wraps: Iterable[str]) -> Workflow:
    """The workflow with its commands wrapped. Raises SettingError.

    A wrapper such as ``nice -n 19 {command}`` is for all tasks, one such as ``blast=nice
    {command}`` for tasks of that type, which then have no other. Functions are not wrapped: they
    are called in processes that run already.
    """
    by_type = _by_type(workflow, wraps)
    if not by_type:
        return workflow
    own = [by_type.get(name, by_type.get("")) for name in workflow.type_names]
    commands = tuple(
        command if not wrapper or not command or command[0] == CALL else _wrap(wrapper, command)
        for command, wrapper in zip(
            workflow.commands, (own[kind] for kind in workflow.types.tolist()), strict=True
        )
    )
    return replace(workflow, commands=commands)


def _by_type(workflow: Workflow, wraps: Iterable[str]) -> dict[str, list[str]]:
    """The words of each wrapper by its type, which is "" for all."""
    found: dict[str, list[str]] = {}
    for wrap in wraps:
        type_name, given, line = wrap.partition("=")
        if not given or (" " in type_name and type_name not in workflow.type_names):
            type_name, line = "", wrap
        if type_name and type_name not in workflow.type_names:
            known = ", ".join(workflow.type_names[:20])
            raise SettingError(
                f"--wrap {wrap!r}: there is no task of type {type_name!r}; there are {known}"
            )
        if type_name in found:
            raise SettingError(f"--wrap {wrap!r}: there are two wrappers for the same tasks")
        found[type_name] = _words(wrap, line)
    return found


def _words(wrap: str, line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SettingError(f"--wrap {wrap!r} is not a command line ({error})") from None
    if not any(COMMAND in word for word in words):
        raise SettingError(
            f"--wrap {wrap!r} does not say where its {COMMAND} goes; try 'nice -n 19 {COMMAND}'"
        )
    return words


def _wrap(wrapper: list[str], command: Command) -> Command:
    """The wrapper's words with the command's words among them, or quoted inside one of them."""
    words: list[str] = []
    for word in wrapper:
        if word == COMMAND:
            words.extend(command)
        else:
            words.append(word.replace(COMMAND, shlex.join(command)) if COMMAND in word else word)
    return tuple(words)
