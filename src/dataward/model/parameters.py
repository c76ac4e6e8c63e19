"""Fills in parameters: ``{name}`` in the commands, variables and file names of a workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dataward.errors import BadNameError, SettingError
from dataward.model.launch import Launch
from dataward.model.names import check_name
from dataward.model.workflow import FileId, Workflow


def parse_parameters(settings: Sequence[str]) -> dict[str, str]:
    """``name=value`` each. Raises SettingError."""
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            raise SettingError(f"{setting!r} is no parameter; write it as name=value")
        found[name] = value
    return found


def with_parameters(workflow: Workflow, parameters: Mapping[str, str]) -> Workflow:
    """The workflow with these values for ``{name}``; other braces are left alone.

    Raises SettingError if a parameter occurs nowhere, and BadNameError if two files end up with
    one name.
    """
    if not parameters:
        return workflow
    marks = {f"{{{name}}}": value for name, value in parameters.items()}
    unused = dict.fromkeys(marks)

    def filled(text: str) -> str:
        for mark, value in marks.items():
            if mark in text:
                unused.pop(mark, None)
                text = text.replace(mark, value)
        return text

    files = tuple(FileId(filled(file)) for file in workflow.file_ids)
    commands = tuple(
        None if command is None else tuple(filled(word) for word in command)
        for command in workflow.commands
    )
    launches = {
        task: Launch(
            filled(launch.stdin),
            filled(launch.stdout),
            filled(launch.stderr),
            tuple((name, filled(value)) for name, value in launch.env),
        )
        for task, launch in workflow.launches.items()
    }
    locations = {FileId(filled(f)): filled(path) for f, path in workflow.locations.items()}
    if unused:
        nowhere = ", ".join(unused)
        raise SettingError(f"{nowhere} is in no command, variable or file name of the workflow")
    seen: set[FileId] = set()
    for file in files:
        check_name("file", file)
        if file in seen:
            raise BadNameError("file", file, "stands for two files once parameters are filled in")
        seen.add(file)
    return replace(
        workflow, file_ids=files, commands=commands, launches=launches, locations=locations
    )
